//! One module for each command.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod list;
pub(crate) mod measure;
pub(crate) mod new_lab;
pub(crate) mod predict;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod slurm;
pub(crate) mod status;
pub(crate) mod study;
pub(crate) mod theory;
pub(crate) mod verify;
pub(crate) mod work;
