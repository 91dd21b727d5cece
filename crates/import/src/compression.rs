//! Decompresses files. The contents decide how, never the name.

use std::io::{self, BufReader, Cursor, Read};

use crate::archive::is_archive;

/// Most memory for an LZMA stream, KiB: its header alone decides, and a damaged one may ask for anything.
const LZMA_MEMORY_KIB: u32 = 256 * 1024;

const MAGIC_BYTES: u64 = 13;

/// The contents of `file`, decompressed if they are gzip, bzip2, xz, lzma or zstd.
///
/// # Errors
/// Its first bytes cannot be read, or are those of an archive.
pub(crate) fn open<'a>(mut file: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let magic = magic(&mut file)?;
    let format = Compression::of(&magic);
    let whole = BufReader::with_capacity(128 * 1024, Cursor::new(magic).chain(file));
    Ok(match format {
        Compression::None => Box::new(whole),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(whole)),
        Compression::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(whole, true, LZMA_MEMORY_KIB)),
        Compression::Lzma => Box::new(lzma_rust2::LzmaReader::new_mem_limit(
            whole,
            LZMA_MEMORY_KIB,
            None,
        )?),
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(whole)?),
        Compression::Zip => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a .zip archive is read from a file, not from a pipe or another archive: unpack it, as with 'unzip -p'",
            ));
        }
    })
}

/// True if there is nothing to decompress in `file`.
///
/// # Errors
/// Its first bytes cannot be read.
pub(crate) fn is_plain(mut file: impl Read) -> io::Result<bool> {
    Ok(Compression::of(&magic(&mut file)?) == Compression::None)
}

fn magic(file: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut magic = Vec::new();
    file.take(MAGIC_BYTES).read_to_end(&mut magic)?;
    Ok(magic)
}

#[derive(Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Bzip2,
    Xz,
    Lzma,
    Zstd,
    /// Holds files, see [`crate::archive`].
    Zip,
}

impl Compression {
    fn of(magic: &[u8]) -> Compression {
        match magic {
            [0x1f, 0x8b, 8, ..] => Compression::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Compression::Bzip2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            magic if is_archive(magic) => Compression::Zip,
            // .lzma has no magic number: properties (0x5d in practice), a dictionary size that is a power of two
            // or the sum of two neighbours, and an uncompressed size that is unknown or below 256 TiB.
            [0x5d, a, b, c, d, size @ ..] if size.len() == 8 => {
                let dictionary = u32::from_le_bytes([*a, *b, *c, *d]);
                let plausible = dictionary >= 4096 && dictionary.count_ones() <= 2;
                if plausible && (size == [0xff; 8] || size[6..] == [0, 0]) {
                    Compression::Lzma
                } else {
                    Compression::None
                }
            }
            _ => Compression::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_taken_for_a_compressed_stream() {
        for text in [
            "",
            "B",
            "BZh is how this line begins",
            "]",
            "] is not lzma at all",
            "*** 2013-08-26",
        ] {
            assert_eq!(Compression::of(text.as_bytes()), Compression::None, "{text}");
        }
    }
}
