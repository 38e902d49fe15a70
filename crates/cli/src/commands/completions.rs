//! `jax2onnx completions` and `jax2onnx man`: print shell completions and write manual pages.

use std::io::Write;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;
use inspect::show::clean;
use onnx::outputs::{Files, create_folder};

use crate::Cli;
use crate::command::Outcome;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    jax2onnx completions bash >> ~/.bashrc\n  \
    jax2onnx completions zsh > ~/.zfunc/_jax2onnx\n  \
    jax2onnx completions fish > ~/.config/fish/completions/jax2onnx.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "jax2onnx", &mut script);
        out.write_all(&script)?;
        Ok(Outcome::Found)
    }
}

/// Write the manual pages
///
/// Writes one page for the program and one for each command, in the format of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder to write the pages to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl ManArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let folder = &self.out;
        create_folder(folder)?;
        let program = Cli::command();
        let mut pages = vec![("jax2onnx".to_owned(), program.clone())];
        for command in program.get_subcommands() {
            let name = format!("jax2onnx-{}", command.get_name());
            // The page shows the name as the user types it.
            let shown = format!("jax2onnx {}", command.get_name());
            pages.push((name, command.clone().display_name(&shown).bin_name(&shown)));
        }
        for (name, command) in pages {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).title(&name).render(&mut page)?;
            let path = folder.join(format!("{name}.1"));
            let file = Files::default().write("the manual page", &path)?;
            file.stage(|out| out.write_all(&page))?.commit()?;
            writeln!(out, "{}", clean(&path.to_string_lossy()))?;
        }
        Ok(Outcome::Found)
    }
}
