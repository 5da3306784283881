//! The versions of the database's tables, oldest first. A released migration never changes.

use rusqlite_migration::{M, Migrations};

/// Marks the file as ours, at byte 68 of its header: "Ferm" in ASCII.
pub(crate) const APPLICATION_ID: i64 = 0x4665_726d;

const STEPS: &[M<'static>] = &[
    M::up(include_str!("migrations/0001_conversations.sql")),
    M::up(include_str!("migrations/0002_checkpoints.sql")),
    M::up(include_str!("migrations/0003_undo.sql")),
];

/// Every migration this binary knows, with how many there are.
pub(crate) fn migrations() -> (Migrations<'static>, usize) {
    (Migrations::from_slice(STEPS), STEPS.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_migration_applies_and_marks_the_file() {
        let (migrations, count) = super::migrations();
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        migrations.to_latest(&mut connection).unwrap();
        let number = |pragma| {
            connection
                .query_row(pragma, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!(number("PRAGMA application_id"), super::APPLICATION_ID);
        assert_eq!(number("PRAGMA user_version"), i64::try_from(count).unwrap());
    }
}
