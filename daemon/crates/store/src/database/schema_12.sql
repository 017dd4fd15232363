-- The merged states of shared items, as before, in a table with row ids. A state is longer than a page of an index holds, so a search in
-- the former table read whole states on its way.
ALTER TABLE sync_items RENAME TO sync_items_before;
DROP INDEX sync_items_by_row;
CREATE TABLE sync_items (
    share    INTEGER NOT NULL REFERENCES shares ON DELETE CASCADE,
    item     TEXT NOT NULL,
    state    TEXT NOT NULL,
    row      INTEGER,
    unwanted INTEGER NOT NULL DEFAULT 0,
    UNIQUE (share, item)
);
INSERT INTO sync_items (share, item, state, row, unwanted) SELECT share, item, state, row, unwanted FROM sync_items_before;
DROP TABLE sync_items_before;
CREATE INDEX sync_items_by_row ON sync_items (row) WHERE row IS NOT NULL;
