//! Lines that speak to the session instead of Python. No Python statement
//! begins with `%`.

pub(super) const HELP: &str = "\
%save [NOTE]     save a checkpoint of the whole machine
%restore [N]     go back to checkpoint N, or to the one saved last
%checkpoints     list the checkpoints of this session
%reset [hard]    forget everything and start anew; hard also replaces the worker
%time CODE       run CODE and print how long it took
%help            this list

Ctrl-C interrupts Python, or clears the line; Ctrl-D or exit() ends the session.";

/// One such line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    Save { note: &'a str },
    Restore { index: Option<u64> },
    Checkpoints,
    Reset { hard: bool },
    Time { code: &'a str },
    Help,
}

impl<'a> Command<'a> {
    /// The command of a source that is one; the error says what is wrong with
    /// it.
    pub(super) fn parse(source: &'a str) -> Option<Result<Self, String>> {
        let line = source.trim().strip_prefix('%')?;
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let unexpected = |command| match rest {
            "" => Ok(command),
            _ => Err(format!("%{name} takes nothing; %help lists the commands")),
        };
        Some(match name {
            "save" => Ok(Self::Save { note: rest }),
            "restore" if rest.is_empty() => Ok(Self::Restore { index: None }),
            "restore" => match rest.parse() {
                Ok(index) => Ok(Self::Restore { index: Some(index) }),
                Err(_) => Err(format!("{rest:?} is not the number of a checkpoint")),
            },
            "checkpoints" => unexpected(Self::Checkpoints),
            "reset" if rest == "hard" => Ok(Self::Reset { hard: true }),
            "reset" => unexpected(Self::Reset { hard: false })
                .map_err(|_| "%reset takes nothing or `hard`".to_owned()),
            "time" if rest.is_empty() => Err("%time wants the code to run".to_owned()),
            "time" => Ok(Self::Time { code: rest }),
            "help" => unexpected(Self::Help),
            _ => Err(format!("%{name} is not known; %help lists the commands")),
        })
    }

    /// The Python in a source, when there may be more of it to come.
    pub(super) fn python(source: &str) -> Option<&str> {
        match source.trim_start().strip_prefix('%') {
            None => Some(source),
            Some(command) => command.strip_prefix("time ").map(str::trim_start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str) -> Command<'_> {
        Command::parse(source).unwrap().unwrap()
    }

    #[test]
    fn commands_and_what_they_take() {
        let save = |note| Command::Save { note };
        assert_eq!(parse("%save"), save(""));
        assert_eq!(
            parse(" %save before the change "),
            save("before the change")
        );
        assert_eq!(parse("%restore"), Command::Restore { index: None });
        assert_eq!(parse("%restore 12"), Command::Restore { index: Some(12) });
        assert_eq!(parse("%reset"), Command::Reset { hard: false });
        assert_eq!(parse("%reset hard"), Command::Reset { hard: true });
        assert_eq!(parse("%time f(1)"), Command::Time { code: "f(1)" });
        assert_eq!(parse("%checkpoints"), Command::Checkpoints);
        assert_eq!(parse("%help"), Command::Help);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for source in [
            "%restore one",
            "%restore -1",
            "%reset soft",
            "%time",
            "%help me",
            "%x",
            "%",
        ] {
            assert!(Command::parse(source).unwrap().is_err(), "{source}");
        }
    }

    #[test]
    fn python_is_no_command() {
        assert_eq!(Command::parse("7 % 3"), None);
        assert_eq!(Command::python("7 % 3"), Some("7 % 3"));
        assert_eq!(Command::python("%time f("), Some("f("));
        assert_eq!(Command::python("%save ("), None);
    }
}
