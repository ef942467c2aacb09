//! The order of resourceVersions.

use std::cmp::Ordering;

/// Compares two resourceVersions of one resource: decimal numbers of any length.
///
/// `None` where one of them is no number, so that nothing can be said.
#[must_use]
pub fn compare(a: &str, b: &str) -> Option<Ordering> {
    let (a, b) = (digits(a)?, digits(b)?);
    Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
}

/// The digits without leading zeros.
fn digits(version: &str) -> Option<&str> {
    let number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    number.then(|| version.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("0010", "9"), Some(Ordering::Greater));
        assert_eq!(compare("10", "010"), Some(Ordering::Equal));
        assert_eq!(
            compare(
                "340282366920938463463374607431768211456",
                "340282366920938463463374607431768211455"
            ),
            Some(Ordering::Greater)
        );
    }

    #[test]
    fn what_is_no_number_has_no_order() {
        for odd in ["", "abc", "1a", "-1"] {
            assert_eq!(compare(odd, "1"), None);
        }
    }
}
