-- The views of `recall sql`, see docs/sql.md. They hide tables of the same name, which are reached as `main.NAME`.

CREATE TEMP VIEW sdk_sessions AS
    SELECT *, user_prompt AS first_user_prompt FROM (
    SELECT s.id, s.session_id AS content_session_id, s.session_id AS memory_session_id, s.session_id AS sdk_session_id,
           s.session_id AS claude_session_id, p.name AS project, s.agent AS platform_source, s.agent,
           (SELECT plain(b.prompt) FROM main.prompt_batches b WHERE b.session = s.id AND b.prompt IS NOT NULL
            ORDER BY b.seq LIMIT 1) AS user_prompt,
           strftime('%Y-%m-%dT%H:%M:%fZ', s.started_at / 1000.0, 'unixepoch') AS started_at,
           s.started_at AS started_at_epoch,
           strftime('%Y-%m-%dT%H:%M:%fZ', s.ended_at / 1000.0, 'unixepoch') AS completed_at,
           s.ended_at AS completed_at_epoch,
           iif(s.status = 'completed', 'completed', 'active') AS status,
           s.prompts AS prompt_counter, s.title AS custom_title, s.title
    FROM main.sessions s JOIN main.projects p ON p.id = s.project);

CREATE TEMP VIEW user_prompts AS
    SELECT b.id, b.session AS session_db_id, s.session_id AS content_session_id, s.session_id AS sdk_session_id,
           s.session_id AS claude_session_id, p.name AS project, b.prompt_number, plain(b.prompt) AS prompt_text,
           strftime('%Y-%m-%dT%H:%M:%fZ', b.opened_at / 1000.0, 'unixepoch') AS created_at,
           b.opened_at AS created_at_epoch
    FROM main.prompt_batches b JOIN main.sessions s ON s.id = b.session JOIN main.projects p ON p.id = s.project
    -- An imported prompt has no event, and a private one no text.
    WHERE b.prompt_event IS NOT NULL OR b.prompt IS NOT NULL;

CREATE TEMP VIEW observations AS
    SELECT o.id, o.uuid, s.session_id AS memory_session_id, p.name AS project, NULL AS text, o.type, o.title,
           o.subtitle, o.facts, o.narrative, o.concepts, o.files_read, o.files_modified, b.prompt_number,
           o.tokens_saved AS discovery_tokens,
           strftime('%Y-%m-%dT%H:%M:%fZ', o.created_at / 1000.0, 'unixepoch') AS created_at,
           o.created_at AS created_at_epoch, o.origin AS generated_by_model, o.importance, o.status, o.superseded_by,
           o.pinned_at IS NOT NULL AS pinned,
           (o.reviewed_at IS NOT NULL OR o.pinned_at IS NOT NULL OR o.origin = 'user') AS reviewed, o.rejected_at IS NOT NULL AS rejected,
           o.author, o.device
    FROM main.observations o JOIN main.projects p ON p.id = o.project
    LEFT JOIN main.sessions s ON s.id = o.session LEFT JOIN main.prompt_batches b ON b.id = o.batch;

CREATE TEMP VIEW session_summaries AS
    SELECT m.id, s.session_id AS memory_session_id, p.name AS project, m.title, m.request, m.investigated, m.learned,
           m.completed, m.next_steps, NULL AS files_read, NULL AS files_edited, m.notes, NULL AS prompt_number,
           strftime('%Y-%m-%dT%H:%M:%fZ', m.created_at / 1000.0, 'unixepoch') AS created_at,
           m.created_at AS created_at_epoch, m.origin AS generated_by_model, m.author, m.device
    FROM main.session_summaries m JOIN main.projects p ON p.id = m.project LEFT JOIN main.sessions s ON s.id = m.session;

-- Each prompt with its answer.
CREATE TEMP VIEW prompts AS
    SELECT b.id, s.session_id, s.agent, p.name AS project, b.prompt_number, b.source, plain(b.prompt) AS prompt,
           plain(b.response) AS answer, b.branch, b.head_commit,
           strftime('%Y-%m-%dT%H:%M:%fZ', b.opened_at / 1000.0, 'unixepoch') AS opened_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', b.closed_at / 1000.0, 'unixepoch') AS closed_at
    FROM main.prompt_batches b JOIN main.sessions s ON s.id = b.session JOIN main.projects p ON p.id = s.project;

CREATE TEMP VIEW calls AS
    SELECT a.id, s.session_id, s.agent, p.name AS project, b.prompt_number, a.kind, a.tool_name, a.failed,
           a.duration_ms, plain(a.input) AS input, plain(a.response) AS response,
           strftime('%Y-%m-%dT%H:%M:%fZ', a.at / 1000.0, 'unixepoch') AS at
    FROM main.activities a JOIN main.sessions s ON s.id = a.session JOIN main.projects p ON p.id = s.project
    LEFT JOIN main.prompt_batches b ON b.id = a.batch;

CREATE TEMP VIEW plans AS
    SELECT l.id, s.session_id, p.name AS project, l.kind, l.path, l.title, plain(l.text) AS text, l.state,
           strftime('%Y-%m-%dT%H:%M:%fZ', l.created_at / 1000.0, 'unixepoch') AS created_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', l.updated_at / 1000.0, 'unixepoch') AS updated_at, l.author, l.device
    FROM main.plans l LEFT JOIN main.sessions s ON s.id = l.session LEFT JOIN main.shares h ON h.id = l.share
    JOIN main.projects p ON p.id = ifnull(s.project, h.project);
