//! Sizes of requests as text.

/// Bytes of a request, as short as is exact: `8 kB`, `1 MB`, `100 B`.
pub(crate) fn bytes_label(bytes: u64) -> String {
    const KB: u64 = 1 << 10;
    const MB: u64 = 1 << 20;
    match bytes {
        0 => "[none]".to_string(),
        _ if bytes.is_multiple_of(MB) => format!("{} MB", bytes / MB),
        _ if bytes.is_multiple_of(KB) => format!("{} kB", bytes / KB),
        _ => format!("{bytes} B"),
    }
}

/// Blocks of a request: `8 blocks`.
pub(crate) fn blocks_label(blocks: u64) -> String {
    match blocks {
        0 => "[none]".to_string(),
        1 => "1 block".to_string(),
        _ => format!("{blocks} blocks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_exactly() {
        let labels = [0, 1, 512, 1024, 8192, 8193, 1 << 20, (1 << 20) + 1024].map(bytes_label);
        assert_eq!(
            labels,
            [
                "[none]", "1 B", "512 B", "1 kB", "8 kB", "8193 B", "1 MB", "1025 kB"
            ]
        );
    }
}
