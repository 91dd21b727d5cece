//! Who a session is: what its process, or its database, says about it.

use std::rc::Rc;

use arcstr::literal;
use dbtime_model::{BackendType, Session};

use crate::postgres::title::Title;
use crate::postgres::titles::Titles;
use crate::process;

/// A process names itself in its title soon after it was forked, and some add to it (an autovacuum worker its database): the title is
/// trusted from this age on.
const TITLE_SETTLED_NS: u64 = 200_000_000;
/// How often the title is read if there is none by then: a client that sends nothing after connecting leaves its backend nameless.
const LATER_NS: u64 = 1_000_000_000;

/// What a process is to the recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    Postmaster,
    /// A server process: it has a wait event, and a title that says what it is.
    Backend,
    /// A server process that the database has described.
    Known(Rc<Description>),
    /// Not a database's.
    Process,
}

/// What a database says about a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) backend_type: BackendType,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) client: String,
    /// See [`dbtime_model::Session::module`].
    pub(crate) module: String,
    pub(crate) title: String,
}

/// What is known about a session's name.
pub(crate) struct Naming {
    role: Role,
    titles: Rc<Titles>,
    pid: u32,
    adopted_ns: u64,
    title: Option<Title>,
    text: String,
    next_look_ns: u64,
}

impl Naming {
    /// Nothing is known yet about a process that was taken up at this moment (CLOCK_MONOTONIC).
    pub(crate) fn new(role: Role, titles: Rc<Titles>, pid: u32, adopted_ns: u64) -> Naming {
        Naming {
            role,
            titles,
            pid,
            adopted_ns,
            title: None,
            text: String::new(),
            next_look_ns: 0,
        }
    }

    /// When it was taken up, CLOCK_MONOTONIC.
    pub(crate) fn adopted_ns(&self) -> u64 {
        self.adopted_ns
    }

    pub(crate) fn role(&self) -> &Role {
        &self.role
    }

    /// True as long as it is not known what kind of process it is.
    pub(crate) fn is_nameless(&self) -> bool {
        self.title.is_none() && self.role == Role::Backend
    }

    /// True for a process so young that it may name itself at any moment.
    pub(crate) fn is_about_to_be_named(&self, now: u64) -> bool {
        self.is_nameless() && now.saturating_sub(self.adopted_ns) < TITLE_SETTLED_NS
    }

    /// True if the present name of a process that began then is final.
    pub(crate) fn is_settled(&self, start_ns: u64, now: u64) -> bool {
        !self.is_nameless() && now.saturating_sub(start_ns) >= TITLE_SETTLED_NS
    }

    /// Reads the title of a process that has none: each time while it is young, then once a second.
    pub(crate) fn look(&mut self, now: u64) {
        if self.is_nameless() && now >= self.next_look_ns {
            if !self.is_about_to_be_named(now) {
                self.next_look_ns = now + LATER_NS;
            }
            self.read();
        }
    }

    /// Reads the title again.
    pub(crate) fn read(&mut self) {
        match &self.role {
            Role::Postmaster | Role::Known(_) => {}
            Role::Process => {
                if let Some(text) = process::title(self.pid) {
                    self.text = text;
                }
            }
            // What a worker has from its leader is not in its title.
            Role::Backend if self.leader_pid().is_some() && self.has_client() => {}
            Role::Backend => {
                if let Some((text, Some(title))) = self.titles.of_recorded(self.pid) {
                    self.title = Some(title);
                    self.text = text;
                }
            }
        }
    }

    /// What its title says.
    pub(crate) fn title(&self) -> Option<&Title> {
        self.title.as_ref()
    }

    /// What its title would have said: it can no longer be read.
    pub(crate) fn set_title(&mut self, title: Title) {
        self.title = Some(title);
    }

    /// Pid of the session that it works for, as the database numbers it.
    pub(crate) fn leader_pid(&self) -> Option<u32> {
        let title = self.title.as_ref()?;
        (title.leader_pid != 0).then_some(title.leader_pid)
    }

    /// True when it is known whose session it is.
    pub(crate) fn has_client(&self) -> bool {
        self.title.as_ref().is_some_and(|title| !title.client.is_empty())
    }

    /// It works for the client of this one, in its database.
    pub(crate) fn take_client_of(&mut self, leader: &Naming) {
        if let (Some(title), Some(of)) = (&mut self.title, &leader.title) {
            title.user.clone_from(&of.user);
            title.database.clone_from(&of.database);
            title.client.clone_from(&of.client);
        }
    }

    /// As far as it is known yet.
    pub(crate) fn backend_type(&self) -> BackendType {
        match (&self.title, &self.role) {
            (_, Role::Known(description)) => description.backend_type.clone(),
            (Some(title), _) => title.backend_type.clone(),
            (None, Role::Postmaster) => BackendType(literal!(BackendType::POSTMASTER)),
            (None, Role::Process) => BackendType(literal!(BackendType::PROCESS)),
            (None, Role::Backend) => BackendType(literal!(BackendType::UNKNOWN)),
        }
    }

    /// User and database; empty = it has none, or it is not known.
    pub(crate) fn whose(&self) -> (String, String) {
        match (&self.title, &self.role) {
            (_, Role::Known(description)) => (description.user.clone(), description.database.clone()),
            (Some(title), _) => (title.user.clone(), title.database.clone()),
            (None, _) => Default::default(),
        }
    }

    /// Writes into a session's row what is known about it.
    pub(crate) fn describe(&self, session: &mut Session) {
        session.backend_type = self.backend_type();
        (session.user, session.database) = self.whose();
        session.title.clone_from(&self.text);
        if let Role::Known(description) = &self.role {
            session.client.clone_from(&description.client);
            session.module.clone_from(&description.module);
            session.title.clone_from(&description.title);
        } else if let Some(title) = &self.title {
            session.client.clone_from(&title.client);
            session.leader_pid = title.leader_pid;
        }
    }
}
