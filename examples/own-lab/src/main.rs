//! semfocus with a mechanism and a task of your own.

mod majority;
mod within;

fn main() -> std::process::ExitCode {
    let lab = semfocus::Lab::standard().with(within::WITHIN).with(majority::MAJORITY);
    lab.program(semfocus::program!()).main()
}
