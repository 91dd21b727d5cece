//! The names of Oracle's wait events, by number.

use std::collections::HashMap;

use dbtime_model::Wait;

use crate::database::{NO_NUMBER, NUMBERED, WaitNames, WaitTraits};

/// Class of the events in which a session waits for work, as in V$EVENT_NAME.
const IDLE: &str = "Idle";
/// The event in which a session waits for its client.
const FROM_CLIENT: &str = "SQL*Net message from client";

/// Name and class of every known event. Without a class: the name comes from the executable.
#[derive(Debug, Default)]
pub(crate) struct EventNames(HashMap<u32, (String, Option<String>)>);

impl EventNames {
    /// Names an event, if it has no name yet.
    pub(super) fn add(&mut self, number: u32, name: &str, class: Option<&str>) {
        self.0
            .entry(number)
            .or_insert_with(|| (name.to_string(), class.map(str::to_string)));
    }

    /// Name of an event.
    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.0.get(&number).map(|(name, _)| name.as_str())
    }

    /// Numbers and names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.0.iter().map(|(&number, (name, _))| (number, name.as_str()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, wait: u32) -> Option<&(String, Option<String>)> {
        let number = wait & !NUMBERED;
        // Event 0 is not an event: a session that never waited has it, and so has memory that is not a session's.
        (wait & NUMBERED != 0 && number != 0)
            .then(|| self.0.get(&number))
            .flatten()
    }
}

impl WaitNames for EventNames {
    fn decode(&self, wait: u32, _foreground: bool) -> Wait {
        match self.find(wait) {
            _ if wait == 0 => Wait::none(),
            Some((name, Some(class))) => Wait::event(class, name, class == IDLE),
            Some((name, None)) => Wait::event("unclassified", name, false),
            None if wait & !NUMBERED == NO_NUMBER => Wait::event(Wait::UNKNOWN, "not an event number", false),
            None => Wait::event(Wait::UNKNOWN, format!("event#={}", wait & !NUMBERED), false),
        }
    }

    fn is_known(&self, wait: u32) -> bool {
        wait == 0 || self.find(wait).is_some()
    }

    fn traits(&self) -> WaitTraits {
        let idle = self
            .0
            .iter()
            .filter(|(_, (_, class))| class.as_deref() == Some(IDLE));
        let mut waits: Vec<(bool, u32)> = idle
            .map(|(&number, (name, _))| (name != FROM_CLIENT, NUMBERED | number))
            .collect();
        waits.sort_unstable();
        WaitTraits {
            no_stack: waits.into_iter().map(|(_, wait)| wait).collect(),
            ..WaitTraits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_event_is_not_named_like_one() {
        let mut names = EventNames::default();
        names.add(0, "null event", Some("Other"));
        names.add(146, "db file sequential read", Some("User I/O"));
        names.add(351, FROM_CLIENT, Some(IDLE));
        names.add(9, "from the executable", None);
        let shown = |wait| names.decode(wait, true).to_string();
        assert_eq!(shown(0), "CPU");
        assert_eq!(shown(NUMBERED | 146), "User I/O:db file sequential read");
        assert_eq!(shown(NUMBERED | 9), "unclassified:from the executable");
        assert_eq!(shown(NUMBERED), "[event#=0]");
        assert_eq!(shown(NUMBERED | 77), "[event#=77]");
        assert_eq!(shown(NUMBERED | NO_NUMBER), "[not an event number]");
        assert!(names.decode(NUMBERED | 351, true).idle);
        assert!(!names.is_known(NUMBERED) && names.is_known(0) && names.is_known(NUMBERED | 146));
        assert_eq!(names.traits().no_stack, [NUMBERED | 351]);
    }
}
