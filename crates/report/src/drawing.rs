//! Pictures as SVG: a document under construction. Names reach it only as escaped text ([`crate::xml`]); it runs no script and
//! loads nothing.

use std::fmt::Write;

use crate::xml::xml;

const FONT_PX: i32 = 12;
/// Mean width of a character.
pub(crate) const CHARACTER_PX: f64 = 7.0;
/// Colour of text.
pub(crate) const INK: &str = "#222222";
/// Colour of explanatory text.
pub(crate) const PALE_INK: &str = "#666666";
/// Colour of grid lines behind the drawing.
pub(crate) const GRID: &str = "#e4e4e4";

/// A document under construction.
#[derive(Default)]
pub(crate) struct Svg(String);

impl Svg {
    /// Begins a white page of this size, pixels.
    pub(crate) fn begin(&mut self, width: i32, height: i32) {
        self.line(format_args!(r#"<?xml version="1.0" encoding="UTF-8"?>"#));
        self.line(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="Verdana, DejaVu Sans, sans-serif" font-size="{FONT_PX}" fill="{INK}">"#
        ));
        self.line(format_args!(
            r##"<rect width="{width}" height="{height}" fill="#ffffff"/>"##
        ));
    }

    /// The document.
    pub(crate) fn finish(mut self) -> String {
        self.line(format_args!("</svg>"));
        self.0
    }

    /// Appends a line of markup. Foreign text in it must have been escaped with [`xml`].
    pub(crate) fn line(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(text);
        self.0.push('\n');
    }

    pub(crate) fn text(&mut self, (x, y): (i32, i32), anchor: &str, ink: &str, text: &str) {
        self.line(format_args!(
            r#"<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{ink}">{}</text>"#,
            xml(text)
        ));
    }

    pub(crate) fn rule(&mut self, from: (i32, i32), to: (i32, i32), ink: &str) {
        self.line(format_args!(
            r#"<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{ink}" shape-rendering="crispEdges"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }
}

/// The text, cut to fit the width.
pub(crate) fn shortened(text: &str, width_px: i32, character_px: f64) -> String {
    let room = (f64::from(width_px) / character_px) as usize;
    if text.chars().count() <= room {
        return text.to_string();
    }
    let mut short: String = text.chars().take(room.saturating_sub(1)).collect();
    short.push('…');
    short
}
