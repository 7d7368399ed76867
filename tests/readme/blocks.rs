//! The fenced blocks of a Markdown document.

use std::fs;
use std::path::Path;

/// The folder of the documents.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The documents whose blocks are run.
pub const DOCUMENTS: &[&str] = &["README.md", "docs/commands.md", "docs/recipes.md", "docs/migrating.md"];

/// What a fence says of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A session with redis-cli, or shell commands behind `$`, with what they print: replayed.
    Console,
    /// Commands for the reader's own machine: not run, but known.
    Shell,
    /// Settings of a server: a server is started with them.
    Conf,
    Python,
    JavaScript,
    Go,
    Java,
    /// What the program in front of it prints.
    Output,
    /// Neither a command nor its answer.
    Text,
    Unknown,
}

impl Language {
    fn of(word: &str) -> Self {
        match word {
            "console" => Self::Console,
            "sh" => Self::Shell,
            "conf" => Self::Conf,
            "python" => Self::Python,
            "js" => Self::JavaScript,
            "go" => Self::Go,
            "java" => Self::Java,
            "output" => Self::Output,
            "text" => Self::Text,
            _ => Self::Unknown,
        }
    }
}

/// A block and where it stands.
#[derive(Clone, Debug)]
pub struct Block {
    pub document: String,
    pub line: usize,
    pub language: Language,
    pub lines: Vec<String>,
}

impl Block {
    pub fn place(&self) -> String {
        format!("{}:{}", self.document, self.line)
    }

    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A file of this project.
#[track_caller]
pub fn read(document: &str) -> String {
    let path = Path::new(ROOT).join(document);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every block of a document, in order.
#[track_caller]
pub fn of(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in read(document).lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(word), None) => {
                let language = Language::of(word.trim());
                open = Some(Block { document: document.to_owned(), line: index + 1, language, lines: vec![] });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{document}: a fence is not closed");
    blocks
}
