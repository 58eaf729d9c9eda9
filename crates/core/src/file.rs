//! Opening files that may come from a stranger. Only regular files are opened: a pipe would block, and a device may never end. Sizes
//! are checked before anything is read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes of the largest text file that is read as a whole: experiments, settings, lists of trials.
pub const MAX_TEXT: u64 = 64 << 20;

/// What becomes of symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// A person names the file and may have made the link.
    Followed,
    /// The folder may come from a stranger, and a link in it may lead anywhere.
    Refused,
}

/// A file is larger than any file of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has {length} bytes, and a file of this kind has at most {limit}")]
pub struct TooLarge {
    /// Its size in bytes.
    pub length: u64,
    /// The largest size that is read.
    pub limit: u64,
}

/// Opens a regular file.
pub fn open(path: &Path, options: &mut OpenOptions, links: Links) -> io::Result<File> {
    let is_link = || links == Links::Refused && fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    #[cfg(unix)]
    {
        let no_links = if links == Links::Refused { libc::O_NOFOLLOW } else { 0 };
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK | no_links);
    }
    let file = options.open(path).map_err(|error| if is_link() { link_error() } else { error })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// The error about a link that is not followed.
pub fn link_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link, and links in run folders are not followed")
}

/// The contents of an open file from a byte on, if the whole file is not larger than the limit.
pub fn read_from(file: &mut File, start: u64, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = |length| Err(io::Error::new(io::ErrorKind::FileTooLarge, TooLarge { length, limit }));
    let length = file.metadata()?.len();
    if length > limit {
        return too_large(length);
    }
    file.seek(SeekFrom::Start(start))?;
    let (mut contents, most) = (Vec::new(), limit.saturating_sub(start));
    // It may grow while it is read.
    file.take(most.saturating_add(1)).read_to_end(&mut contents)?;
    if contents.len() as u64 > most { too_large(start + contents.len() as u64) } else { Ok(contents) }
}

/// Reads a text file that a person names.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_from(&mut open(path, File::options().read(true), Links::Followed)?, 0, MAX_TEXT)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_sensible_size_are_read() {
        let dir = std::env::temp_dir().join(format!("semfocus-file-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, large, pipe) = (dir.join("file"), dir.join("large"), dir.join("pipe"));
        fs::write(&file, "text").unwrap();
        assert_eq!(read_text(&file).unwrap(), "text");
        File::create(&large).unwrap().set_len(3 << 30).unwrap();
        assert!(read_text(&large).unwrap_err().to_string().contains("it has 3221225472 bytes"));
        fs::write(&large, [0xff]).unwrap();
        assert_eq!(read_text(&large).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut opened = open(&file, File::options().read(true), Links::Refused).unwrap();
        assert_eq!(read_from(&mut opened, 1, 4).unwrap(), b"ext");
        assert!(read_from(&mut opened, 0, 3).unwrap_err().get_ref().is_some_and(|error| error.is::<TooLarge>()));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for special in [pipe.as_path(), Path::new("/dev/zero"), &dir] {
            assert!(read_text(special).unwrap_err().to_string().contains("not a regular file"), "{special:?}");
        }
        let link = dir.join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_text(&link).unwrap(), "text");
        let refused = open(&link, File::options().read(true), Links::Refused).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
