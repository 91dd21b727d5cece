//! Functions described in the type information (BTF) of the kernel and its modules: those that programs can be attached to by number.

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null_mut};

use libbpf_rs::libbpf_sys::{self, BTF_KIND_FUNC, btf};
use libbpf_rs::query::BtfInfoIter;

use crate::CollectError;

/// Name of the kernel's own type information, among that of its modules.
const KERNEL: &str = "vmlinux";

/// Where a function is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionType {
    /// Number of the type.
    pub(super) id: u32,
    /// The module's type information; none = the kernel's own.
    pub(super) module: Option<usize>,
}

/// All of them by name. A name that occurs twice is ambiguous, and left out.
#[derive(Debug)]
pub(crate) struct KernelFunctions {
    by_name: HashMap<String, Option<FunctionType>>,
    modules: Vec<OwnedFd>,
}

/// Type information as libbpf reads it.
struct Types(NonNull<btf>);

impl Drop for Types {
    fn drop(&mut self) {
        // SAFETY: libbpf made it, and nothing refers to it any more.
        unsafe { libbpf_sys::btf__free(self.0.as_ptr()) }
    }
}

impl Types {
    /// Reads what the kernel gave; for a module, with what it is based on, which must live longer.
    fn read(bytes: &[u8], base: Option<&Types>) -> Option<Types> {
        let size = u32::try_from(bytes.len()).ok()?;
        let base = base.map_or(null_mut(), |base| base.0.as_ptr());
        // SAFETY: libbpf copies `size` bytes, which are there, and checks what it reads.
        NonNull::new(unsafe { libbpf_sys::btf__new_split(bytes.as_ptr().cast(), size, base) }).map(Types)
    }

    fn count(&self) -> u32 {
        // SAFETY: it is valid as long as `self`.
        unsafe { libbpf_sys::btf__type_cnt(self.0.as_ptr()) }
    }

    /// The name of this type, if it is a function.
    fn function(&self, id: u32) -> Option<&str> {
        // SAFETY: libbpf gives null for what is not there; what it points to is valid as long as `self`.
        let kind = unsafe { libbpf_sys::btf__type_by_id(self.0.as_ptr(), id).as_ref() }?;
        if (kind.info >> 24) & 0x1f != BTF_KIND_FUNC {
            return None;
        }
        // SAFETY: as above; a string of libbpf ends with 0.
        let name = unsafe {
            let name = libbpf_sys::btf__name_by_offset(self.0.as_ptr(), kind.name_off);
            (!name.is_null()).then(|| CStr::from_ptr(name))
        };
        name?.to_str().ok()
    }
}

impl KernelFunctions {
    /// Reads them from the kernel.
    ///
    /// # Errors
    /// It has no type information, or does not hand it out.
    pub(crate) fn read() -> Result<KernelFunctions, CollectError> {
        let mut functions = KernelFunctions {
            by_name: HashMap::new(),
            modules: Vec::new(),
        };
        let missing =
            || CollectError::Kernel("the kernel has no type information for its functions".to_string());
        // The kernel's own comes first: modules are based on it.
        let mut all = BtfInfoIter::default();
        let own = all.find(|info| info.name == KERNEL).ok_or_else(missing)?;
        let own = Types::read(&own.btf, None).ok_or_else(missing)?;
        functions.add(&own, 1, None);
        for info in all {
            // The type information of BPF programs has no name.
            if info.name.is_empty() {
                continue;
            }
            // A module that is unloaded meanwhile is left out.
            if let (Some(types), Some(module)) = (Types::read(&info.btf, Some(&own)), open(info.id)) {
                functions.modules.push(module);
                functions.add(&types, own.count(), Some(functions.modules.len() - 1));
            }
        }
        Ok(functions)
    }

    fn add(&mut self, types: &Types, from: u32, module: Option<usize>) {
        for id in from..types.count() {
            if let Some(name) = types.function(id) {
                self.by_name
                    .entry(name.to_string())
                    .and_modify(|known| *known = None)
                    .or_insert(Some(FunctionType { id, module }));
            }
        }
    }

    /// Where this function is described.
    pub(crate) fn get(&self, name: &str) -> Option<FunctionType> {
        self.by_name.get(name).copied().flatten()
    }

    /// The descriptor that the kernel expects for the module: 0 = its own.
    pub(super) fn module(&self, function: FunctionType) -> RawFd {
        function
            .module
            .map_or(0, |module| self.modules[module].as_raw_fd())
    }
}

fn open(id: u32) -> Option<OwnedFd> {
    // SAFETY: the kernel gives a descriptor that nobody else has, or a negative number.
    unsafe {
        let fd = libbpf_sys::bpf_btf_get_fd_by_id(id);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::print_stderr)] // A test that is skipped says so.
    fn functions_of_this_kernel_have_types() {
        let Ok(functions) = KernelFunctions::read() else {
            eprintln!("SKIPPED: the kernel's type information needs root");
            return;
        };
        let found = functions.get("vfs_read").expect("every kernel has it");
        assert!(found.id > 0 && found.module.is_none(), "{found:?}");
        assert_eq!(functions.module(found), 0);
        assert_eq!(functions.get("no such function"), None);
    }
}
