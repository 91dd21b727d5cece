//! Lists of dimensions or columns.

use std::fmt::Display;

/// Fails if something is listed twice: the second time would add nothing.
///
/// # Errors
/// The message says what.
pub fn each_once<T: PartialEq + Display>(listed: &[T]) -> Result<(), String> {
    let is_repeated = |at: &usize| listed[..*at].contains(&listed[*at]);
    match (0..listed.len()).find(is_repeated) {
        Some(at) => Err(format!("'{}' is listed twice: list it once", listed[at])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_twice_is_named() {
        assert_eq!(each_once::<&str>(&[]), Ok(()));
        assert_eq!(each_once(&["wait", "state"]), Ok(()));
        let error = each_once(&["wait", "state", "wait"]).expect_err("it is listed twice");
        assert!(error.starts_with("'wait'"), "{error}");
    }
}
