//! What the process does with freed memory.

/// Makes the process keep freed memory for reuse instead of giving it back to the system.
///
/// Every training step frees and allocates the same tens of megabytes. By default the C library gives them back to the system
/// and requests them again, which costs a page fault for every 4 KiB. Call this once at the start of a program. It does nothing
/// if the C library is not glibc.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const LARGEST: libc::c_int = 1 << 30;
        // SAFETY: `mallopt` only sets parameters of the allocator. If it fails, only speed is lost.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
            libc::mallopt(libc::M_TRIM_THRESHOLD, LARGEST);
        }
    }
}
