//! A table of text, as the page's template lays it out.

use serde::Serialize;

/// A table of text.
#[derive(Serialize)]
pub(crate) struct Grid {
    head: Vec<String>,
    /// Per column, whether it holds numbers.
    numeric: Vec<bool>,
    lines: Vec<Line>,
}

impl Grid {
    /// From names of columns and lines; lines that are too short are filled.
    pub(crate) fn new(head: Vec<String>, mut lines: Vec<Line>) -> Grid {
        let blank = || Entry { kind: "text", text: String::new(), small: None };
        lines.iter_mut().for_each(|line| line.cells.resize_with(head.len(), blank));
        let is_number = |i: usize| lines.iter().any(|l| matches!(l.cells[i].kind, "number" | "missing"));
        Grid { numeric: (0..head.len()).map(is_number).collect(), head, lines }
    }
}

impl Grid {
    /// The same, where there are lines.
    pub(crate) fn of_some<const N: usize>(heads: [&str; N], lines: Vec<Line>) -> Option<Grid> {
        (!lines.is_empty()).then(|| Grid::new(heads.map(str::to_owned).to_vec(), lines))
    }

    /// Adds lines of as many cells.
    pub(crate) fn extend(&mut self, lines: Vec<Line>) {
        let Grid { head, numeric, lines: own } = Grid::new(std::mem::take(&mut self.head), lines);
        (self.head, self.numeric) = (head, numeric);
        self.lines.extend(own);
    }
}

/// A line of a [`Grid`].
#[derive(Serialize)]
pub(crate) struct Line {
    /// Colour and dash of the client that the line begins, if it begins one.
    pub(crate) swatch: Option<(usize, String)>,
    /// Its cells.
    pub(crate) cells: Vec<Entry>,
}

/// A cell of a [`Grid`].
#[derive(Serialize)]
pub(crate) struct Entry {
    /// `name`, `text`, `number` or `missing`.
    pub(crate) kind: &'static str,
    /// What it says.
    pub(crate) text: String,
    /// What it says beneath, smaller.
    pub(crate) small: Option<String>,
}

impl Entry {
    /// A number.
    pub(crate) fn number(text: impl Into<String>) -> Entry {
        Entry { kind: "number", text: text.into(), small: None }
    }

    /// Words.
    pub(crate) fn text(text: impl Into<String>) -> Entry {
        Entry { kind: "text", text: text.into(), small: None }
    }

    /// A figure that there is not, and why.
    pub(crate) fn missing(text: impl Into<String>, why: impl Into<String>) -> Entry {
        Entry { kind: "missing", text: text.into(), small: Some(why.into()) }
    }

    /// With a smaller text beneath.
    pub(crate) fn with(self, small: impl Into<String>) -> Entry {
        Entry { small: Some(small.into()), ..self }
    }
}
