//! YAML and JSON as a tree that remembers where each thing stood. What keys mean is not known here.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// How deep lists and mappings may nest; deeper text is refused before it can exhaust the stack.
const MAX_DEPTH: usize = 64;

/// A value and where it was written, both numbers from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) column: u32,
    /// Whether an alias or a merge brought it to where it is.
    pub(super) is_borrowed: bool,
    pub(super) value: Value,
}

/// What stood there. Numbers keep a text, which is theirs but for odd spellings (0x10, 1e3).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key, where it stood, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) line: u32,
    pub(super) column: u32,
    /// Whether an alias or a merge brought it to where it is.
    pub(super) is_borrowed: bool,
    pub(super) key: String,
    pub(super) value: Node,
}

/// Why a text is no tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) line: u32,
    pub(super) why: String,
}

impl Node {
    /// Reads one document whose first line is line `before + 1` of the file.
    pub(super) fn parse(text: &str, before: u32) -> Result<Node, Unread> {
        let options = serde_saphyr::options! { with_snippet: false, budget: serde_saphyr::budget! { max_depth: MAX_DEPTH } };
        let mut node: Node = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let line = error.location().map_or(1, |at| line(at.line()));
            let why = error.to_string();
            Unread {
                line: before + line.max(1),
                why: why.split(" at line ").next().unwrap_or(&why).to_owned(),
            }
        })?;
        node.shift(before);
        Ok(node)
    }

    /// Reads JSON, as strictly as who takes nothing else does.
    pub(super) fn parse_json(text: &str, before: u32) -> Result<Node, Unread> {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| {
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or(&why);
            let at = u32::try_from(error.line()).unwrap_or(1).max(1);
            Unread { line: before + at, why: format!("no JSON: {why}") }
        })?;
        Node::parse(text, before)
    }

    fn shift(&mut self, by: u32) {
        self.line += by;
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.shift(by)),
            Value::Map(entries) => entries.iter_mut().for_each(|entry| {
                entry.line += by;
                entry.value.shift(by);
            }),
            _ => {}
        }
    }

    /// The entries of a map; none of anything else.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none of anything else.
    pub(super) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The entry of that key.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value of that key, unless it is null.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value).filter(|node| node.value != Value::Null)
    }

    /// The value behind keys within each other.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The text that it is.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text or number that it is, as written.
    pub(super) fn word(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text),
            _ => None,
        }
    }

    /// The number that it is.
    pub(super) fn number<T: std::str::FromStr>(&self) -> Option<T> {
        match &self.value {
            Value::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Whether it is `true`.
    pub(super) fn is_true(&self) -> bool {
        self.value == Value::Bool(true)
    }

    /// The last line that it is known to reach; None where an end is not known: of text of several lines, and of what
    /// an alias brought in.
    pub(super) fn last_line(&self) -> Option<u32> {
        if self.is_borrowed {
            return None;
        }
        match &self.value {
            Value::Text(text) if text.contains('\n') => None,
            Value::List(items) => {
                items.iter().try_fold(self.line, |last, item| Some(last.max(item.last_line()?)))
            }
            Value::Map(entries) => entries
                .iter()
                .try_fold(self.line, |last, entry| Some(last.max(entry.line).max(entry.value.last_line()?))),
            _ => Some(self.line),
        }
    }
}

impl fmt::Display for Node {
    /// Short, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => f.write_str("nothing"),
            Value::Bool(value) => write!(f, "`{value}`"),
            Value::Number(text) | Value::Text(text) => write!(f, "`{}`", text.escape_debug()),
            Value::List(_) => f.write_str("a list"),
            Value::Map(_) => f.write_str("a mapping"),
        }
    }
}

/// A line or column as this tree keeps it.
fn line(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX / 2)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Node {
            line: line(spanned.defined.line()),
            column: line(spanned.defined.column()),
            is_borrowed: spanned.referenced != spanned.defined,
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfValue)
    }
}

struct OfValue;

impl<'de> Visitor<'de> for OfValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }
    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }
    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Node>()? {
            let (line, column) = (line(key.defined.line()), line(key.defined.column()));
            let is_borrowed = key.referenced != key.defined;
            entries.push(Entry { line, column, is_borrowed, key: key.value, value });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_knows_its_line_and_column() {
        let text = "a: 1\nb:\n  - x: \"1\"\n    y: {z: [0.5]}\nc: |\n  one\n  two\n";
        let node = Node::parse(text, 10).unwrap();
        let at = |node: &Node| (node.line, node.column);
        let item = &node.get("b").unwrap().items()[0];
        assert_eq!((at(item), at(item.get("x").unwrap())), ((13, 5), (13, 8)));
        let deep = item.at(&["y", "z"]).unwrap();
        assert_eq!((at(deep), deep.items()[0].word()), ((14, 12), Some("0.5")));
        let block = node.entry("c").unwrap();
        assert_eq!((block.line, block.value.line, block.value.text()), (15, 16, Some("one\ntwo\n")));
        assert_eq!((item.last_line(), block.value.last_line()), (Some(14), None));
    }

    #[test]
    fn what_an_alias_brings_in_is_told_where_it_was_written() {
        let node = Node::parse("a: &m\n  e: f\nb: *m\nc:\n  <<: *m\n  g: 1\n", 7).unwrap();
        let at = |node: &Node| (node.line, node.is_borrowed, node.last_line());
        assert_eq!(at(node.at(&["a", "e"]).unwrap()), (9, false, Some(9)));
        assert_eq!(at(node.get("b").unwrap()), (9, true, None));
        for path in [["b", "e"], ["c", "e"]] {
            assert_eq!(at(node.at(&path).unwrap()), (9, true, None), "{path:?}");
        }
        assert_eq!(at(node.at(&["c", "g"]).unwrap()), (13, false, Some(13)));
    }

    #[test]
    fn what_is_no_yaml_is_told_by_line() {
        for (text, line) in
            [("a: {{ .Values.x }}\n", 8), ("a: 1\n{{- if b }}\nc: 2\n", 9), ("a: 1\na: 2\n", 9)]
        {
            assert_eq!(Node::parse(text, 7).unwrap_err().line, line, "{text}");
        }
        assert!(Node::parse(&"[".repeat(100_000), 0).is_err());
        assert_eq!(Node::parse("# nothing\n", 0).unwrap().value, Value::Null);
    }
}
