#!/bin/sh
# A service that does nothing but live: it leaves a sign of life every second.
trap 'exit 0' TERM INT
while :; do
    date +%s > "$ROLLCALL_DATA_DIR/alive.new" && mv "$ROLLCALL_DATA_DIR/alive.new" "$ROLLCALL_DATA_DIR/alive"
    sleep 1 &
    wait $!
done
