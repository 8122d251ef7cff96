//! Package names and release idents, with the order that Habitat gives them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use bincode::de::{BorrowDecoder, Decoder};
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{BorrowDecode, Decode, Encode};

use crate::{ConfigId, ParseError};

/// BOUND: idents stand in paths and tables.
const MAX_PART_BYTES: usize = 100;

/// A package: `origin/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct PackageName {
    origin: String,
    name: String,
}

impl PackageName {
    /// Who makes it.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.origin, self.name)
    }
}

impl FromStr for PackageName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        text.split_once('/')
            .filter(|(origin, name)| is_origin(origin) && is_package(name))
            .map(|(origin, name)| Self { origin: origin.to_owned(), name: name.to_owned() })
            .ok_or_else(|| ParseError::new("package", text, "origin/name, like acme/redis"))
    }
}

/// A fully qualified release: `origin/name/version/release`, and where its group has a configuration that too:
/// `origin/name/version/release@c42`. A node is moved to both at once, by the same steps.
///
/// Releases of one package are ordered by version, then by release: dotted numbers numerically; of equal numbers, one
/// without a suffix is above one with; then suffixes as strings; then the release as a string;
/// then the configuration, of which a later one is above an earlier.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReleaseIdent {
    package: PackageName,
    version: String,
    release: String,
    config: Option<ConfigId>,
}

impl ReleaseIdent {
    /// The package it is a release of.
    #[must_use]
    pub fn package(&self) -> &PackageName {
        &self.package
    }

    /// The version, `7.2.1-rc1`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The release, `20261130101500`.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The configuration of its group that goes with it; none: it goes without.
    #[must_use]
    pub fn config(&self) -> Option<ConfigId> {
        self.config
    }

    /// The same release with that configuration, or without any.
    #[must_use]
    pub fn with_config(&self, config: Option<ConfigId>) -> Self {
        Self { config, ..self.clone() }
    }

    /// The release alone, as it lies in a depot.
    #[must_use]
    pub fn bare(&self) -> Self {
        self.with_config(None)
    }
}

/// As it was stored before there were configurations, which stand behind the release: `20261130101500@c42`.
impl Encode for ReleaseIdent {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.package.encode(encoder)?;
        self.version.encode(encoder)?;
        match self.config {
            None => self.release.encode(encoder),
            Some(config) => format!("{}@{config}", self.release).encode(encoder),
        }
    }
}

impl ReleaseIdent {
    fn from_stored(package: PackageName, version: String, release: String) -> Result<Self, DecodeError> {
        let Some((alone, config)) = release.split_once('@') else {
            return Ok(Self { package, version, release, config: None });
        };
        let config = config.parse().map_err(|_| DecodeError::Other("what is behind the @ is no configuration"))?;
        Ok(Self { package, version, release: alone.to_owned(), config: Some(config) })
    }
}

impl<C> Decode<C> for ReleaseIdent {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Self::from_stored(Decode::decode(decoder)?, Decode::decode(decoder)?, Decode::decode(decoder)?)
    }
}

impl<'de, C> BorrowDecode<'de, C> for ReleaseIdent {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}

impl fmt::Display for ReleaseIdent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.package, self.version, self.release)?;
        self.config.iter().try_for_each(|config| write!(f, "@{config}"))
    }
}

impl FromStr for ReleaseIdent {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (ident, config) = match text.split_once('@') {
            Some((ident, config)) => (ident, Some(config.parse()?)),
            None => (text, None),
        };
        let parts: Vec<&str> = ident.split('/').collect();
        match parts[..] {
            [origin, name, version, release]
                if is_origin(origin) && is_package(name) && is_version(version) && is_release(release) =>
            {
                Ok(Self {
                    package: PackageName { origin: origin.to_owned(), name: name.to_owned() },
                    version: version.to_owned(),
                    release: release.to_owned(),
                    config,
                })
            }
            _ => Err(ParseError::new(
                "fully qualified release",
                text,
                "origin/name/version/release, like acme/redis/7.2.1/20261130101500",
            )),
        }
    }
}

impl Ord for ReleaseIdent {
    fn cmp(&self, other: &Self) -> Ordering {
        self.package
            .cmp(&other.package)
            .then_with(|| compare_versions(&self.version, &other.version))
            .then_with(|| self.release.cmp(&other.release))
            // Versions that only differ in leading zeros are equal by the order above, and yet two releases.
            .then_with(|| self.version.cmp(&other.version))
            .then_with(|| self.config.cmp(&other.config))
    }
}

impl PartialOrd for ReleaseIdent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn compare_versions(a: &str, b: &str) -> Ordering {
    let ((a_numbers, a_suffix), (b_numbers, b_suffix)) = (split_version(a), split_version(b));
    compare_numbers(a_numbers, b_numbers).then_with(|| match (a_suffix.is_empty(), b_suffix.is_empty()) {
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => a_suffix.cmp(b_suffix),
    })
}

/// The dotted numbers at the front, and whatever follows them.
fn split_version(version: &str) -> (&str, &str) {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    version.split_at(end)
}

/// Dotted numbers, numerically, whatever their length; a missing part is below any part.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> Vec<String> {
        text.split('.').filter(|part| !part.is_empty()).map(|part| part.trim_start_matches('0').to_owned()).collect()
    };
    let (a, b) = (parts(a), parts(b));
    a.iter()
        .zip(&b)
        .map(|(a, b)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
        .find(|ordering| ordering.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn is_part(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.len() <= MAX_PART_BYTES && text.chars().all(allowed)
}

fn is_origin(text: &str) -> bool {
    is_part(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
}

fn is_package(text: &str) -> bool {
    is_part(text, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// A version is a path component too, so `..` and its like can't be one: it begins with a digit or letter.
fn is_version(text: &str) -> bool {
    is_part(text, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '~'))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_release(text: &str) -> bool {
    text.len() == 14 && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ident(version: &str, release: &str) -> ReleaseIdent {
        format!("acme/redis/{version}/{release}").parse().unwrap()
    }

    #[test]
    fn releases_are_ordered_as_habitat_orders_them() {
        let ascending = [
            ident("1.2.3", "20250101000000"),
            ident("1.9.0", "20250101000000"),
            ident("1.10.0-alpha", "20260101000000"),
            ident("1.10.0-beta", "20250101000000"),
            ident("1.10.0", "20250101000000"),
            ident("1.10.0", "20250101000001"),
            ident("1.10.0.1", "20240101000000"),
            ident("2", "20240101000000"),
        ];
        assert!(ascending.is_sorted());
        assert_ne!(ident("1.0", "20250101000000").cmp(&ident("1.00", "20250101000000")), Ordering::Equal);
    }

    #[test]
    fn a_configuration_is_part_of_it() {
        let configured: ReleaseIdent = "acme/redis/1.0/20250101000000@c42".parse().unwrap();
        assert_eq!(configured.to_string(), "acme/redis/1.0/20250101000000@c42");
        assert_eq!(configured.config(), Some(ConfigId(42)));
        assert_eq!(configured.bare(), ident("1.0", "20250101000000"));
        assert!(configured > configured.bare() && configured < configured.with_config(Some(ConfigId(100))));
        assert!(configured < ident("1.1", "20250101000000"));
        for release in [configured.bare(), configured] {
            let bytes = bincode::encode_to_vec(&release, bincode::config::standard()).unwrap();
            let (again, _): (ReleaseIdent, _) =
                bincode::decode_from_slice(&bytes, bincode::config::standard()).unwrap();
            assert_eq!(again, release);
        }
    }

    #[test]
    fn only_fully_qualified_idents_parse() {
        for bad in [
            "acme/redis",
            "acme/redis/1.0",
            "acme/redis/1.0/2025",
            "Acme/redis/1.0/20250101000000",
            "acme/redis/../20250101000000",
            "/redis/1/20250101000000",
            "acme/redis/1.0/20250101000000/x",
            "acme/redis/1.0/2025010100000a",
            "acme/redis/1.0/20250101000000@",
            "acme/redis/1.0/20250101000000@42",
            "acme/redis/1.0/20250101000000@c4@c5",
            "",
        ] {
            assert!(bad.parse::<ReleaseIdent>().is_err(), "{bad}");
        }
    }
}
