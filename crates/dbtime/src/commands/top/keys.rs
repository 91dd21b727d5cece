//! Which key is which.

use dbtime_report::tui::View;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Back,
    Open,
    Help,
    Show(View),
    NextView,
    ViewBefore,
    /// This many rows down, or up.
    Move(i64),
    Order,
    /// Longer (true) or shorter time for the tables.
    Time(bool),
    Filter,
    Freeze,
    /// This many rows of time forward, or back.
    Step(i64),
    First,
    Last,
    Record,
}

/// A minute, in steps of a second.
const MINUTE: i64 = 60;
/// Rows of a page, for callers that do not know how many fit.
const PAGE: i64 = 10;

/// What a key means when no text is being typed.
pub(super) fn action(key: KeyEvent) -> Option<Action> {
    let is_with = |modifier| key.modifiers.contains(modifier);
    if is_with(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Some(Action::Quit),
            _ => None,
        };
    }
    let step = if is_with(KeyModifiers::SHIFT) { MINUTE } else { 1 };
    Some(match key.code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Action::Help,
        KeyCode::Char(number @ '1'..='6') => {
            let at = u32::from(number) - u32::from('1');
            Action::Show(*View::ALL.get(at as usize)?)
        }
        KeyCode::Tab => Action::NextView,
        KeyCode::BackTab => Action::ViewBefore,
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::PageUp => Action::Move(-PAGE),
        KeyCode::PageDown => Action::Move(PAGE),
        KeyCode::Enter => Action::Open,
        KeyCode::Esc | KeyCode::Backspace => Action::Back,
        KeyCode::Char('s') => Action::Order,
        KeyCode::Char('+' | '=') => Action::Time(true),
        KeyCode::Char('-') => Action::Time(false),
        KeyCode::Char('/') => Action::Filter,
        KeyCode::Char(' ') => Action::Freeze,
        KeyCode::Left => Action::Step(-step),
        KeyCode::Right => Action::Step(step),
        KeyCode::Char('[') => Action::Step(-MINUTE),
        KeyCode::Char(']') => Action::Step(MINUTE),
        KeyCode::Home => Action::First,
        KeyCode::End => Action::Last,
        KeyCode::Char('r') => Action::Record,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_the_help_says() {
        let plain = |code| action(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(plain(KeyCode::Char('q')), Some(Action::Quit));
        assert_eq!(plain(KeyCode::Char('3')), Some(Action::Show(View::Sessions)));
        assert_eq!(plain(KeyCode::Char('6')), Some(Action::Show(View::Latency)));
        assert_eq!(plain(KeyCode::Char('7')), None);
        assert_eq!(plain(KeyCode::Char('r')), Some(Action::Record));
        assert_eq!(plain(KeyCode::Left), Some(Action::Step(-1)));
        let with = |code, modifiers| action(KeyEvent::new(code, modifiers));
        assert_eq!(with(KeyCode::Right, KeyModifiers::SHIFT), Some(Action::Step(60)));
        assert_eq!(
            with(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Action::Quit)
        );
        assert_eq!(with(KeyCode::Char('s'), KeyModifiers::CONTROL), None);
    }
}
