//! How the process treats memory it has freed.

/// Lets the process keep freed memory for its next use instead of giving it back to the system.
///
/// A training step frees and asks for the same tens of megabytes again and again. By default the C library returns them
/// and takes them anew, which costs a page fault for every 4 KiB. Call it once at the start of a program; where the C
/// library is not glibc it does nothing.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const LARGEST: libc::c_int = 1 << 30;
        // SAFETY: `mallopt` only sets parameters of the allocator. Whether it succeeds makes no difference but in speed.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
            libc::mallopt(libc::M_TRIM_THRESHOLD, LARGEST);
        }
    }
}
