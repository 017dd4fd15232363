-- Schema 6: memory of files.

-- The file of an injection of the moment 'file', relative to the project's folder.
ALTER TABLE injections ADD COLUMN file TEXT;

-- Calls that wrote a file as a whole: what was known of it before is about another file.
CREATE TABLE file_rewrites (
    activity INTEGER PRIMARY KEY REFERENCES activities ON DELETE CASCADE,
    path     TEXT NOT NULL
);
CREATE INDEX file_rewrites_by_path ON file_rewrites (path);
