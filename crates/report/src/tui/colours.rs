//! How many colours a terminal has, and which of them represents one of the palette.

use ratatui::style::Color;

use crate::palette;

/// What a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// None, or none are wanted.
    None,
    /// The sixteen that every terminal has.
    Sixteen,
    /// The table of 256.
    Indexed,
    /// Any.
    All,
}

/// The sixteen without black and white, as most terminals show them.
const SIXTEEN: [(Color, (u8, u8, u8)); 14] = [
    (Color::Red, (205, 0, 0)),
    (Color::Green, (0, 205, 0)),
    (Color::Yellow, (205, 205, 0)),
    (Color::Blue, (0, 0, 238)),
    (Color::Magenta, (205, 0, 205)),
    (Color::Cyan, (0, 205, 205)),
    (Color::Gray, (229, 229, 229)),
    (Color::DarkGray, (127, 127, 127)),
    (Color::LightRed, (255, 0, 0)),
    (Color::LightGreen, (0, 255, 0)),
    (Color::LightYellow, (255, 255, 0)),
    (Color::LightBlue, (92, 92, 255)),
    (Color::LightMagenta, (255, 0, 255)),
    (Color::LightCyan, (0, 255, 255)),
];
/// Steps of each component of a colour in the table of 256.
const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];

impl Colours {
    /// What the terminal can show, according to environment variables.
    pub fn of(no_color: Option<&str>, term: &str, colorterm: Option<&str>) -> Colours {
        match colorterm {
            _ if no_color.is_some_and(|value| !value.is_empty()) => Colours::None,
            Some("truecolor" | "24bit") => Colours::All,
            _ if term.contains("256color") => Colours::Indexed,
            _ if term.starts_with("vt") => Colours::None,
            _ => Colours::Sixteen,
        }
    }

    /// The closest to a colour of the palette (`#rrggbb`).
    pub(super) fn nearest(self, hex: &str) -> Option<Color> {
        let rgb = palette::rgb(hex).into();
        match self {
            Colours::None => None,
            Colours::Sixteen => SIXTEEN
                .into_iter()
                .min_by_key(|(_, other)| distance(rgb, *other))
                .map(|(colour, _)| colour),
            Colours::Indexed => {
                let step = |value: u8| {
                    let nearest = (0..STEPS.len()).min_by_key(|at| STEPS[*at].abs_diff(value));
                    nearest.unwrap_or(0) as u8
                };
                Some(Color::Indexed(
                    16 + 36 * step(rgb.0) + 6 * step(rgb.1) + step(rgb.2),
                ))
            }
            Colours::All => Some(Color::Rgb(rgb.0, rgb.1, rgb.2)),
        }
    }

    /// The colour of a wait event, or a class of them.
    pub(super) fn of_wait(self, label: &str) -> Option<Color> {
        self.nearest(palette::of_wait(label).unwrap_or(palette::OTHER))
    }
}

fn distance(one: (u8, u8, u8), other: (u8, u8, u8)) -> u32 {
    let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    square(one.0, other.0) + square(one.1, other.1) + square(one.2, other.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_how_many_colours_there_are() {
        let of = |no_color, term, colorterm| Colours::of(no_color, term, colorterm);
        assert_eq!(of(Some("1"), "xterm-256color", Some("truecolor")), Colours::None);
        assert_eq!(of(Some(""), "xterm-256color", Some("truecolor")), Colours::All);
        assert_eq!(of(None, "xterm-256color", None), Colours::Indexed);
        assert_eq!(of(None, "screen", None), Colours::Sixteen);
        assert_eq!(of(None, "vt100", None), Colours::None);
    }

    #[test]
    fn a_colour_of_the_palette_has_one_that_is_near() {
        assert_eq!(
            Colours::All.nearest("#3f7fbf"),
            Some(Color::Rgb(0x3f, 0x7f, 0xbf))
        );
        assert_eq!(Colours::Indexed.nearest("#ff0000"), Some(Color::Indexed(196)));
        assert_eq!(Colours::Sixteen.nearest("#c0392b"), Some(Color::Red));
        assert_eq!(Colours::None.of_wait("Lock"), None);
    }
}
