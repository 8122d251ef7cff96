//! The `[[window]]` tables.

use rollcall_ident::Millis;
use rollcall_proto::v1;
use serde::Deserialize;
use toml::Spanned;

use crate::config::FromText;
use crate::failure::Failure;
use crate::maintenance::{Day, StartTime, Window};
use crate::toml_error::TomlSource;

/// One window.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowTable {
    days: Option<Spanned<Vec<FromText<Day>>>>,
    start_time: FromText<StartTime>,
    length: Spanned<FromText<Millis>>,
    time_zone: Option<Spanned<String>>,
}

/// All windows of a group, as requests carry them.
pub fn into_wire(windows: Vec<Spanned<WindowTable>>, source: &TomlSource<'_>) -> Result<v1::WindowList, Failure> {
    let values = windows.into_iter().map(|window| one_into_wire(window, source)).collect::<Result<_, _>>()?;
    Ok(v1::WindowList { values })
}

fn one_into_wire(table: Spanned<WindowTable>, source: &TomlSource<'_>) -> Result<v1::Window, Failure> {
    let whole = table.span();
    let table = table.into_inner();
    let days_at = table.days.as_ref().map(Spanned::span);
    let (length_at, zone_at) = (table.length.span(), table.time_zone.as_ref().map(Spanned::span));
    let days = table.days.map(Spanned::into_inner).unwrap_or_default();
    let window = Window {
        days: days.into_iter().map(|day| day.0).collect(),
        start_time: table.start_time.0,
        length: table.length.into_inner().0,
        time_zone: table.time_zone.map(Spanned::into_inner),
    };
    window.check().map_err(|(key, problem)| {
        let at = match key {
            "days" => days_at,
            "time_zone" => zone_at,
            _ => Some(length_at),
        };
        source.error_at(&at.unwrap_or(whole), &problem)
    })?;
    Ok(window.into_wire())
}
