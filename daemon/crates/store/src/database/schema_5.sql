-- `reviewed_at`: when a person kept, rejected, rewrote, pinned, resolved or reopened an observation. What a person wrote or pinned
-- counts as reviewed without it. `rejected_at`: it is resolved by hand, because it is wrong or useless, and replaces nothing.
ALTER TABLE observations ADD COLUMN reviewed_at INTEGER;
ALTER TABLE observations ADD COLUMN rejected_at INTEGER;
UPDATE observations SET reviewed_at = (SELECT max(at) FROM hand_changes WHERE observation = observations.id AND NOT undone)
    WHERE id IN (SELECT observation FROM hand_changes WHERE NOT undone);

-- What waits for a review is listed and counted without its rows; what was reviewed may be all that is told.
CREATE INDEX observations_unreviewed ON observations (project, created_at DESC, status, reviewed_at, pinned_at, origin)
    WHERE status = 'active' AND reviewed_at IS NULL AND pinned_at IS NULL AND origin <> 'user';
CREATE INDEX observations_reviewed ON observations (project, importance DESC, created_at DESC)
    WHERE status = 'active' AND reviewed_at IS NOT NULL;
CREATE INDEX observations_rejected ON observations (project, type, created_at DESC) WHERE rejected_at IS NOT NULL;
