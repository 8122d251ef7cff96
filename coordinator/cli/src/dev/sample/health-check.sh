#!/bin/sh
# Healthy as long as the last sign of life is at most five seconds old.
alive=$(cat "$ROLLCALL_DATA_DIR/alive" 2>/dev/null) || { echo 'no sign of life yet'; exit 2; }
age=$(($(date +%s) - alive))
[ "$age" -le 5 ] || { echo "no sign of life for $age s"; exit 2; }
