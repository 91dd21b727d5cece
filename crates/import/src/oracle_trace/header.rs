//! The header of a trace file.

/// True for the lines between `Trace file` and the first `***`.
pub(super) fn is_header(line: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 11] = [
        b"/",
        b"Oracle",
        b"With the ",
        b"and ",
        b"Advanced ",
        b"Build label:",
        b"ORACLE_HOME",
        b"JServer Release",
        b"PL/SQL Release",
        b"CLID:",
        b"Redo thread mounted",
    ];
    // The options of the database, which may take several lines.
    const ENDINGS: [&[u8]; 3] = [b" options", b" option", b","];
    if ENDINGS
        .iter()
        .any(|ending| line.trim_ascii_end().ends_with(ending))
    {
        return true;
    }
    if BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) {
        return true;
    }
    // `Name of something: value`
    let name = line
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic() || **byte == b' ')
        .count();
    name > 0 && name <= 40 && (line.get(name) == Some(&b':') || line.starts_with(b"Version "))
}
