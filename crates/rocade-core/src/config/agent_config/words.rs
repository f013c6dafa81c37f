//! Values of `kind: AgentConfig` that are more than a text or a number.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::MAX_SLOTS;
use super::super::wrong::{Wrong, quoted};
use crate::host::LinkLayer;

/// A time as `30s`, `500ms`, `2m` or `1h`, whole numbers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

impl Time {
    fn parse(text: &str) -> Option<Time> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
        let ms = match &text[digits.len()..] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        number.checked_mul(ms).map(|ms| Time(Duration::from_millis(ms)))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wanted = "a whole number with its unit, as 30s, 500ms, 2m or 0s";
        Time::parse(&text).ok_or_else(|| D::Error::custom(Wrong::new("RDC703", quoted(&text), wanted).pack()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_millis() {
            ms if ms % 1000 == 0 => serializer.collect_str(&format_args!("{}s", ms / 1000)),
            ms => serializer.collect_str(&format_args!("{ms}ms")),
        }
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$" })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A number of slots, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotsWord {
    Number(i64),
    Auto,
}

impl<'de> Deserialize<'de> for SlotsWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "auto" {
            return Ok(SlotsWord::Auto);
        }
        let wrong =
            || Wrong::new("RDC703", quoted(&text), format!("a whole number from 1 to {MAX_SLOTS}, or auto"));
        text.parse().map(SlotsWord::Number).map_err(|_| D::Error::custom(wrong().pack()))
    }
}

impl Serialize for SlotsWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SlotsWord::Number(number) => serializer.serialize_i64(*number),
            SlotsWord::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl JsonSchema for SlotsWord {
    fn schema_name() -> Cow<'static, str> {
        "Slots".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer", "minimum": 1, "maximum": MAX_SLOTS }, { "const": "auto" }]
        })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A PCI vendor or device id. YAML reads one of four decimal digits as a number, so a schema has to take both.
pub(super) fn id_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "items": { "type": ["string", "integer"], "pattern": "^(0[xX])?[0-9a-fA-F]{4}$" }
    })
}

/// A link layer that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum LinkLayerWord {
    Infiniband,
    Ethernet,
}

impl From<LinkLayerWord> for LinkLayer {
    fn from(word: LinkLayerWord) -> Self {
        match word {
            LinkLayerWord::Infiniband => LinkLayer::InfiniBand,
            LinkLayerWord::Ethernet => LinkLayer::Ethernet,
        }
    }
}

/// A list that stands there and is empty would select nothing, or mean that its key is not there: nobody could tell.
pub(super) fn not_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() {
        let wrong =
            Wrong::new("RDC706", "an empty list", "at least one entry").with_cure("leave the key out");
        return Err(D::Error::custom(wrong.pack()));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_needs_its_unit() {
        let ms = |text| Time::parse(text).map(|time| time.0.as_millis());
        for (text, wanted) in [("0s", 0), ("500ms", 500), ("30s", 30_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(ms(text), Some(wanted), "{text}");
        }
        for text in ["", "s", "30", "+1s", "-1s", "1.5s", "1 s", "1d", "1S", "99999999999999999h", "1s2"] {
            assert_eq!(ms(text), None, "{text}");
        }
    }
}
