-- Schema 10: the jobs that wait, in the order in which they are taken: of ten thousand the next one is found at once.
CREATE INDEX jobs_waiting ON jobs (stood_in, id) WHERE status IN ('pending', 'retrying');
