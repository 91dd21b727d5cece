//! How many.

/// Parses a number of things to show: with none, there would be nothing to see.
///
/// # Errors
/// It is not a number, or 0.
pub fn above_zero(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("must be a number above 0".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_not_a_number_of_things_to_show() {
        assert_eq!(above_zero("1"), Ok(1));
        for wrong in ["0", "-1", "1.5", "", "all"] {
            assert!(above_zero(wrong).is_err(), "{wrong}");
        }
    }
}
