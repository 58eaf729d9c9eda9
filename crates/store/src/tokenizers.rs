//! The tokenizers of a run: `tokenizers/<key>-<checksum>.<extension>`. The key says what the tokenizer was made from, so a process that
//! plans the trials finds it without making it again; the checksum is that of the contents.

use std::path::{Path, PathBuf};

use semfocus_core::fnv_1a;

use crate::{Store, StoreError, files};

/// The folder of the tokenizers in a run.
const FOLDER: &str = "tokenizers";

/// A tokenizer as a run keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTokenizer {
    /// What it was made from.
    pub key: u64,
    /// FNV-1a of its contents.
    pub checksum: u64,
    /// How the name of its file ends: `json` or `model`.
    pub extension: String,
    /// What its file holds.
    pub contents: Vec<u8>,
}

impl StoredTokenizer {
    /// A tokenizer that is to be kept.
    pub fn new(key: u64, extension: &str, contents: Vec<u8>) -> Self {
        StoredTokenizer { key, checksum: fnv_1a(contents.iter().copied()), extension: extension.to_owned(), contents }
    }

    fn file_name(&self) -> String {
        let StoredTokenizer { key, checksum, extension, .. } = self;
        format!("{key:016x}-{checksum:016x}.{extension}")
    }
}

impl Store {
    /// The tokenizer that was made from what this key stands for, if the run keeps it.
    pub fn tokenizer_for(&self, key: u64) -> Result<Option<StoredTokenizer>, StoreError> {
        self.find_tokenizer(|name| name.key == key)
    }

    /// The tokenizer whose contents have this checksum, if the run keeps it.
    pub fn tokenizer_with(&self, checksum: u64) -> Result<Option<StoredTokenizer>, StoreError> {
        self.find_tokenizer(|name| name.checksum == checksum)
    }

    /// Keeps a tokenizer for the trials that use it. A copy that is there and good stays as it is.
    pub fn keep_tokenizer(&self, tokenizer: &StoredTokenizer) -> Result<(), StoreError> {
        let path = self.dir.join(FOLDER).join(tokenizer.file_name());
        if path.symlink_metadata().is_ok() && read(&path).is_ok() {
            return Ok(());
        }
        files::create_folder(files::folder_of(&path))?;
        files::write_whole(&path, &tokenizer.contents)
    }

    fn find_tokenizer(&self, is_wanted: impl Fn(&FileName) -> bool) -> Result<Option<StoredTokenizer>, StoreError> {
        let mut paths = self.tokenizer_files()?.into_iter();
        let path = paths.find(|path| FileName::of(path).is_some_and(|name| is_wanted(&name)));
        path.map(|path| read(&path)).transpose()
    }

    /// What is wrong with the tokenizers that are there.
    pub(crate) fn tokenizer_damage(&self) -> Vec<StoreError> {
        match self.tokenizer_files() {
            Ok(paths) => paths.iter().filter_map(|path| read(path).err()).collect(),
            Err(error) => vec![error],
        }
    }

    /// A trial needs a tokenizer that is missing.
    pub(crate) fn check_tokenizer(&self, checksum: &str) -> Result<(), StoreError> {
        let found = self
            .tokenizer_files()?
            .iter()
            .any(|path| FileName::of(path).is_some_and(|name| format!("{:016x}", name.checksum) == checksum));
        if found {
            return Ok(());
        }
        let reason = "the tokenizer with this checksum is missing; `semfocus run` makes it again";
        Err(StoreError::damaged(&self.dir.join(FOLDER).join(checksum), reason))
    }

    fn tokenizer_files(&self) -> Result<Vec<PathBuf>, StoreError> {
        let folder = self.dir.join(FOLDER);
        let mut paths: Vec<PathBuf> = self.names(&folder)?.iter().map(|name| folder.join(name)).collect();
        paths.retain(|path| FileName::of(path).is_some());
        paths.sort();
        Ok(paths)
    }
}

/// What the name of a file says.
struct FileName {
    key: u64,
    checksum: u64,
    extension: String,
}

impl FileName {
    /// None for a file of another kind, such as one that was set aside.
    fn of(path: &Path) -> Option<Self> {
        let (stem, extension) = path.file_name()?.to_str()?.split_once('.')?;
        let (key, checksum) = stem.split_once('-')?;
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16);
        let is_tokenizer = ["json", "model"].contains(&extension);
        Some(FileName { key: number(key)?, checksum: number(checksum)?, extension: extension.to_owned() })
            .filter(|_| is_tokenizer)
    }
}

fn read(path: &Path) -> Result<StoredTokenizer, StoreError> {
    let missing = || StoreError::damaged(path, "it is missing; `semfocus run` makes it again");
    let FileName { key, checksum, extension } = FileName::of(path).ok_or_else(missing)?;
    let contents = files::read(path)?.ok_or_else(missing)?;
    let found = StoredTokenizer::new(key, &extension, contents);
    if found.checksum != checksum {
        let reason = format!("its contents have the checksum {:016x}, and its name says another", found.checksum);
        return Err(StoreError::damaged(path, reason));
    }
    Ok(found)
}
