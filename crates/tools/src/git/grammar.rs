//! How the flags of one Git subcommand are spelled, and which of them are accepted.
//!
//! What is not in a table is refused, so a flag that a later Git adds is refused until somebody has
//! looked at it.

/// What the value of a flag, or an operand, may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Anything: Git takes it as text.
    Any,
    /// Decimal digits.
    Number,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A revision or a path inside the repository: neither absolute nor through `..`.
    Inside,
    /// Lines of one file: the path behind the last colon is inside the repository.
    LineRange,
    /// A revision whose message is used as it is: Git opens an editor for the other forms.
    PlainFixup,
}

/// A flag that takes a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Valued {
    pub(super) name: &'static str,
    pub(super) rule: Rule,
}

/// What may stand where no flag stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// Revisions and paths inside the repository.
    Inside,
    /// Nothing: Git would make a branch of it.
    None,
    /// Whatever Git takes; it keeps paths inside the work tree itself.
    Any,
    /// The name of a configured remote, then names of its branches.
    Remote,
}

/// What one subcommand accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grammar {
    /// The subcommand.
    pub(super) name: &'static str,
    /// Flags without a value.
    pub(super) switches: &'static [&'static [&'static str]],
    /// Flags whose value may be the next argument.
    pub(super) required: &'static [&'static [Valued]],
    /// Flags whose value, if there is one, is attached.
    pub(super) optional: &'static [&'static [Valued]],
    /// Whether `-5` is a number of commits.
    pub(super) takes_count: bool,
    /// Whether `-` names something.
    pub(super) takes_dash: bool,
    pub(super) operands: Operands,
}

/// How a flag of the tables takes its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Switch,
    Required(Rule),
    Optional(Rule),
}

impl Grammar {
    /// The form of the flag spelled exactly `name`, with its dashes.
    pub(super) fn find(&self, name: &str) -> Option<Form> {
        let valued = |tables: &'static [&'static [Valued]]| {
            let mut all = tables.iter().flat_map(|table| table.iter());
            all.find(|flag| flag.name == name).map(|flag| flag.rule)
        };
        if self.switches.iter().any(|table| table.contains(&name)) {
            return Some(Form::Switch);
        }
        valued(self.required)
            .map(Form::Required)
            .or_else(|| valued(self.optional).map(Form::Optional))
    }

    /// Every accepted flag, spelled with the form of its value.
    pub(super) fn spelled(&self) -> Vec<String> {
        let switches = self.switches.iter().flat_map(|table| table.iter());
        let required = self.required.iter().flat_map(|table| table.iter());
        let optional = self.optional.iter().flat_map(|table| table.iter());
        let is_long = |name: &str| name.starts_with("--");
        switches
            .map(|name| (*name).to_owned())
            .chain(required.map(|flag| match is_long(flag.name) {
                true => format!("{}=", flag.name),
                false => format!("{} …", flag.name),
            }))
            .chain(optional.map(|flag| match is_long(flag.name) {
                true => format!("{}[=]", flag.name),
                false => format!("{}[…]", flag.name),
            }))
            .chain(self.takes_count.then(|| "-<number>".to_owned()))
            .collect()
    }
}

/// A row of the tables.
pub(super) const fn valued(name: &'static str, rule: Rule) -> Valued {
    Valued { name, rule }
}
