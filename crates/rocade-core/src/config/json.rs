//! JSON that remembers where each thing stood. It reads what Go's encoding/json reads (RFC 8259, duplicate keys
//! allowed) and judges nothing beyond syntax; what the keys mean is its parent's business.

use std::fmt;

/// How deep lists and objects may nest; deeper text is refused before it can exhaust the stack.
const MAX_DEPTH: usize = 64;

/// Line and column, both from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// A value and where it began.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Value,
}

/// What stood there. Numbers keep their text: 100.0 and 1e2 are no whole numbers to Go.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// A key, where it stood, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) at: Position,
    pub(super) key: String,
    pub(super) value: Node,
}

/// Where reading stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) at: Position,
    /// The key that it is at, or behind: `configList[0].selectors`; empty before the first.
    pub(super) path: String,
    pub(super) seen: String,
    pub(super) wanted: &'static str,
}

/// Reads one JSON value and nothing after it.
pub(super) fn parse_json(text: &str) -> Result<Node, SyntaxError> {
    let mut reader = Reader { rest: text, at: Position { line: 1, column: 1 }, depth: 0 };
    let node = reader.value()?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(node),
        Some(_) => reader.wrong("nothing after the value"),
    }
}

impl SyntaxError {
    /// Seen from one level further out: `step` is a key, or `[N]`.
    fn within(mut self, step: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{step}{dot}{}", self.path);
        self
    }
}

impl fmt::Display for Value {
    /// Short, for messages: "the text `a`", "a list".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => write!(f, "null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Number(n) => write!(f, "the number {n}"),
            Value::Text(t) => write!(f, "the text \"{}\"", t.escape_debug()),
            Value::List(_) => write!(f, "a list"),
            Value::Object(_) => write!(f, "an object"),
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    at: Position,
    depth: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Node, SyntaxError> {
        self.skip_space();
        let at = self.at;
        let value = match self.peek() {
            Some('{') => self.nested(Self::object)?,
            Some('[') => self.nested(Self::list)?,
            Some('"') => Value::Text(self.text()?),
            Some('-' | '0'..='9') => Value::Number(self.number()?),
            Some('t') => self.word("true", Value::Bool(true))?,
            Some('f') => self.word("false", Value::Bool(false))?,
            Some('n') => self.word("null", Value::Null)?,
            _ => return self.wrong("a value"),
        };
        Ok(Node { at, value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, SyntaxError>) -> Result<Value, SyntaxError> {
        if self.depth == MAX_DEPTH {
            return self.wrong("at most 64 lists and objects within each other");
        }
        self.depth += 1;
        self.next();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, SyntaxError> {
        let mut members = Vec::new();
        if self.closes('}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let at = self.at;
            if self.peek() != Some('"') {
                return self.wrong("a key in double quotes");
            }
            let key = self.text()?;
            self.skip_space();
            let (value, more) = self.member_value().map_err(|error| error.within(&key))?;
            members.push(Member { at, key, value });
            if !more {
                return Ok(Value::Object(members));
            }
        }
    }

    fn member_value(&mut self) -> Result<(Node, bool), SyntaxError> {
        self.expect(':', "a colon after the key")?;
        let value = self.value()?;
        Ok((value, self.goes_on('}', "a comma or }")?))
    }

    fn list(&mut self) -> Result<Value, SyntaxError> {
        let mut items = Vec::new();
        if self.closes(']') {
            return Ok(Value::List(items));
        }
        loop {
            let step = format!("[{}]", items.len());
            let (item, more) = self.item().map_err(|error| error.within(&step))?;
            items.push(item);
            if !more {
                return Ok(Value::List(items));
            }
        }
    }

    fn item(&mut self) -> Result<(Node, bool), SyntaxError> {
        let item = self.value()?;
        Ok((item, self.goes_on(']', "a comma or ]")?))
    }

    /// Whether a comma comes next, and not the closing bracket.
    fn goes_on(&mut self, bracket: char, wanted: &'static str) -> Result<bool, SyntaxError> {
        if self.closes(bracket) {
            return Ok(false);
        }
        self.expect(',', wanted).map(|()| true)
    }

    fn text(&mut self) -> Result<String, SyntaxError> {
        self.next();
        let mut out = String::new();
        loop {
            match self.peek() {
                Some('"') => {
                    self.next();
                    return Ok(out);
                }
                Some('\\') => out.push(self.escape()?),
                Some(c) if c >= ' ' => {
                    out.push(c);
                    self.next();
                }
                _ => return self.wrong("the closing double quote on the same line"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        self.next();
        let plain = match self.peek() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode(),
            _ => return self.wrong("one of \" \\ / b f n r t u after a backslash"),
        };
        self.next();
        Ok(plain)
    }

    /// `uXXXX`, a pair of them for characters beyond 16 bits; a half pair becomes U+FFFD, as in Go.
    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let high = self.hex4()?;
        if let Some(c) = char::from_u32(high) {
            return Ok(c);
        }
        let (rest, at) = (self.rest, self.at);
        if high < 0xdc00 && self.rest.starts_with("\\u") {
            self.next();
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                let joined = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (self.rest, self.at) = (rest, at);
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Result<u32, SyntaxError> {
        self.next();
        let mut value = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) else {
                return self.wrong("four hexadecimal digits after \\u");
            };
            value = value << 4 | digit;
            self.next();
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<String, SyntaxError> {
        let mut out = String::new();
        self.take_if('-', &mut out);
        if !self.take_if('0', &mut out) {
            self.digits(&mut out)?;
        }
        if self.take_if('.', &mut out) {
            self.digits(&mut out)?;
        }
        if self.take_if('e', &mut out) || self.take_if('E', &mut out) {
            let _ = self.take_if('+', &mut out) || self.take_if('-', &mut out);
            self.digits(&mut out)?;
        }
        Ok(out)
    }

    fn digits(&mut self, out: &mut String) -> Result<(), SyntaxError> {
        let before = out.len();
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            out.push(c);
            self.next();
        }
        if out.len() == before { self.wrong("a digit") } else { Ok(()) }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, SyntaxError> {
        if !self.rest.starts_with(word) {
            return self.wrong("a value");
        }
        word.chars().for_each(|_| self.next());
        Ok(value)
    }

    /// Skips space and, if it comes next, the closing bracket.
    fn closes(&mut self, bracket: char) -> bool {
        self.skip_space();
        let there = self.peek() == Some(bracket);
        if there {
            self.next();
        }
        there
    }

    fn expect(&mut self, c: char, wanted: &'static str) -> Result<(), SyntaxError> {
        if self.peek() != Some(c) {
            return self.wrong(wanted);
        }
        self.next();
        Ok(())
    }

    fn take_if(&mut self, c: char, out: &mut String) -> bool {
        let there = self.peek() == Some(c);
        if there {
            out.push(c);
            self.next();
        }
        there
    }

    fn skip_space(&mut self) {
        while let Some(' ' | '\t' | '\n' | '\r') = self.peek() {
            self.next();
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) {
        let Some(c) = self.peek() else { return };
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.at = Position { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
    }

    fn wrong<T>(&self, wanted: &'static str) -> Result<T, SyntaxError> {
        let seen = match self.peek() {
            Some('\u{feff}') => "a byte order mark (U+FEFF)".to_owned(),
            Some(c) => format!("`{}`", c.escape_debug()),
            None => "the end of the file".to_owned(),
        };
        Err(SyntaxError { at: self.at, path: String::new(), seen, wanted })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(value: &Value) -> serde_json::Value {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(b) => (*b).into(),
            Value::Number(n) => serde_json::from_str(n).expect("a number serde_json reads"),
            Value::Text(t) => t.clone().into(),
            Value::List(items) => items.iter().map(|n| plain(&n.value)).collect(),
            Value::Object(members) => {
                let pairs = members.iter().map(|m| (m.key.clone(), plain(&m.value.value)));
                serde_json::Value::Object(pairs.collect())
            }
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map(".*", inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_json(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn it_agrees_with_serde_on_what_is_json(text in "[\\[\\]{}\",:0-9a-f\\\\ \n.eE+-]{0,24}") {
            let serde = serde_json::from_str::<serde_json::Value>(&text);
            // serde_json judges size as well as syntax; size is not this reader's business.
            prop_assume!(!matches!(&serde, Err(e) if e.to_string().contains("out of range")));
            prop_assert_eq!(parse_json(&text).is_ok(), serde.is_ok());
        }

        #[test]
        fn what_serde_writes_is_read_back(value in any_json()) {
            let text = serde_json::to_string_pretty(&value).unwrap();
            let node = parse_json(&text).unwrap();
            prop_assert_eq!(plain(&node.value), value);
        }
    }

    #[test]
    fn a_thing_knows_its_line_and_column() {
        let node = parse_json("{\n  \"a\": [1,\n    \"ü\", true]}").unwrap();
        let Value::Object(members) = node.value else { panic!() };
        assert_eq!(members[0].at, Position { line: 2, column: 3 });
        let Value::List(items) = &members[0].value.value else { panic!() };
        assert_eq!(items[1].at, Position { line: 3, column: 5 });
        assert_eq!(items[2].at, Position { line: 3, column: 10 });
    }

    #[test]
    fn a_syntax_error_says_where_what_and_what_was_wanted() {
        let error = parse_json("{\"a\": 1,\n}").unwrap_err();
        assert_eq!(error.at, Position { line: 2, column: 1 });
        assert_eq!((error.seen.as_str(), error.wanted), ("`}`", "a key in double quotes"));
        assert_eq!(parse_json("[1").unwrap_err().seen, "the end of the file");
        assert_eq!(parse_json("01").unwrap_err().wanted, "nothing after the value");
    }

    #[test]
    fn a_syntax_error_names_the_key_that_it_is_at_or_behind() {
        let path = |text: &str| parse_json(text).unwrap_err().path;
        assert_eq!(path(r#"{"a": [{"b": 1, "c": tru}]}"#), "a[0].c");
        assert_eq!(path(r#"{"a": [1, [2 3]]}"#), "a[1][0]");
        assert_eq!(path(r#"{"a": [1, 2], "b" 3}"#), "b");
        assert_eq!(path(r#"{"a": [1, 2] "b": 3}"#), "a");
        assert_eq!(path(r#"{"a": {"b": "x"#), "a.b");
        assert_eq!(path(r#"{"a": 1,}"#), "");
    }

    #[test]
    fn a_byte_order_mark_is_called_by_its_name() {
        assert_eq!(parse_json("\u{feff}{}").unwrap_err().seen, "a byte order mark (U+FEFF)");
    }

    #[test]
    fn nesting_without_end_is_refused() {
        assert!(parse_json(&"[".repeat(100_000)).is_err());
        assert!(parse_json(&format!("{}{}", "[".repeat(64), "]".repeat(64))).is_ok());
    }

    #[test]
    fn half_a_surrogate_pair_becomes_the_replacement_character() {
        let text = |t: &str| parse_json(t).unwrap().value;
        assert_eq!(text(r#""\ud83d\ude00""#), Value::Text("😀".into()));
        assert_eq!(text(r#""\ud83dx""#), Value::Text("\u{fffd}x".into()));
        assert_eq!(text(r#""\ud83d\u0041""#), Value::Text("\u{fffd}A".into()));
    }
}
