//! Functions: frames without their offsets and build ids, so that equal code reads the same in every stack and every
//! recording.

use std::collections::HashMap;
use std::sync::Arc;

use dbtime_model::{Frame, NO_STACK, StackId, State};
use serde::Serialize;

use crate::dimensions::Dimensions;
use crate::preemption::{PREEMPTED, own_frames};

/// Stands for the frames of a stack that is not in the recording.
pub(crate) const MISSING: &str = "[stack not recorded]";
/// Stands where no stack was taken: in idle waits, or because the session ran while it was read.
pub(crate) const NO_STACK_TAKEN: &str = "[no stack]";
/// Stands below a kernel stack whose user stack was lost for that reason.
pub(crate) const NO_USER_STACK: &str = "[no user stack]";

/// A function of a program, a library or the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Function {
    /// Its symbol; `[module]` for all functions of a module that have none, `[unknown]` for code in no file.
    #[serde(rename = "function")]
    pub name: String,
    /// See [`Frame::module`].
    pub module: String,
    /// A function of the kernel.
    pub kernel: bool,
}

impl Function {
    fn of(frame: &Frame, kernel: bool) -> Function {
        let name = match (frame.symbol.as_str(), frame.module.trim_matches(['[', ']'])) {
            ("", "") => "[unknown]".to_string(),
            ("", module) => format!("[{module}]"),
            (symbol, _) => symbol.to_string(),
        };
        Function {
            name,
            module: frame.module.clone(),
            kernel,
        }
    }

    /// Not a function, but a placeholder for one.
    fn words(name: &str) -> Function {
        Function {
            name: name.to_string(),
            module: String::new(),
            kernel: false,
        }
    }

    /// True for code of a module that has no symbol.
    pub(crate) fn is_code_without_name(&self) -> bool {
        !self.is_named() && !self.module.is_empty()
    }

    /// True for the placeholder of the frames that took a session's CPU away.
    pub(crate) fn is_preemption(&self) -> bool {
        self.module.is_empty() && self.name == PREEMPTED
    }

    /// Its name as shown in text, with the suffix `[k]` if it is in the kernel.
    pub(crate) fn label(&self) -> String {
        match self.kernel {
            true => format!("{} [k]", self.name),
            false => self.name.clone(),
        }
    }

    /// False for placeholders of a stack, and for code that has no name.
    pub fn is_named(&self) -> bool {
        !self.name.starts_with('[')
    }
}

/// Index of a function in [`Functions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FunctionId(u32);

impl FunctionId {
    /// All possible ids, in the order in which functions are numbered.
    pub(crate) fn all() -> impl Iterator<Item = FunctionId> {
        (0..=u32::MAX).map(FunctionId)
    }

    /// Its index in a list of all functions.
    pub(crate) fn place(self) -> usize {
        self.0 as usize
    }
}

/// Every function seen, once; of one recording or of several that are compared.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    list: Vec<Arc<Function>>,
    ids: HashMap<Arc<Function>, FunctionId>,
}

impl Functions {
    pub(crate) fn get(&self, id: FunctionId) -> &Function {
        &self.list[id.place()]
    }

    /// The copy that all answers share.
    pub(crate) fn shared(&self, id: FunctionId) -> Arc<Function> {
        Arc::clone(&self.list[id.place()])
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    fn id(&mut self, function: Function) -> FunctionId {
        if let Some(id) = self.ids.get(&function) {
            return *id;
        }
        // 32 bits are enough, unlike for stacks: more functions would not fit into memory.
        let id = FunctionId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let function = Arc::new(function);
        self.list.push(Arc::clone(&function));
        self.ids.insert(function, id);
        id
    }

    /// The call path of a user and a kernel stack in this state, root first. Never empty: a gap has a name.
    pub(crate) fn path(
        &mut self,
        user: StackId,
        kernel: StackId,
        state: State,
        dimensions: &Dimensions,
    ) -> Vec<FunctionId> {
        let mut path = Vec::new();
        for (id, is_kernel) in [(user, false), (kernel, true)] {
            match dimensions.stack(id) {
                Some(frames) => {
                    let (frames, is_preempted) = match is_kernel {
                        true => own_frames(frames, state),
                        false => (frames, false),
                    };
                    for frame in frames {
                        path.push(self.id(Function::of(frame, is_kernel)));
                    }
                    if is_preempted {
                        path.push(self.id(Function::words(PREEMPTED)));
                    }
                }
                None if id != NO_STACK => path.push(self.id(Function::words(MISSING))),
                None if is_kernel && path.is_empty() => path.push(self.id(Function::words(NO_STACK_TAKEN))),
                None if !is_kernel && kernel != NO_STACK => {
                    path.push(self.id(Function::words(NO_USER_STACK)));
                }
                None => {}
            }
        }
        path
    }
}
