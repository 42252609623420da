-- Who is shown what, word for word as in transforms/visibility.py. A macro's argument is cast to text: compared with a
-- number, '042' would be 42.

create or replace macro visible_corpora(agent_id, user_id) as table
select c.corpus_id, c.scope, c.type, c.name
from corpora c
join agents a on a.agent_id = agent_id::varchar
where c.is_active and user_id::varchar <> ''
  and case c.type
        when 'global' then
          exists (from corpus_agent_assignments g where g.corpus_id = c.corpus_id and g.agent_id = a.agent_id)
          and (a.workspace_id is null or c.workspace_id = a.workspace_id)
        when 'personal' then
          c.owner_id = user_id::varchar and a.allows_personal_corpus
          and (not c.is_assigned
               or exists (from corpus_agent_assignments g where g.corpus_id = c.corpus_id and g.agent_id = a.agent_id))
          and (a.workspace_id is null or c.workspace_id is null or c.workspace_id = a.workspace_id)
      end
order by c.corpus_id;
comment on macro table visible_corpora is
  'The corpora that an agent shows a user: the active global ones it is assigned, and the user''s own where it allows them.';

create or replace macro visible_chunks(agent_id, user_id) as table
with
seen as (
  select o.chunk_id, o.occurrence_id, o.corpus_id, v.scope, v.type, v.name, o.seen_at, o.source, o.source_row_id,
         o.source_doc_id, o.metadata, k.canonical_id, k.kind, k.text, k.chunk_id = g.chunk_id as stands,
         min(o.seen_at) over (partition by o.chunk_id) as first_seen
  from visible_corpora(agent_id, user_id) v
  -- A row that is behind another wall than its corpus is in none.
  join occurrences o on o.corpus_id = v.corpus_id and o.scope = v.scope
  join chunks k on k.chunk_id = o.chunk_id
  join canonicals g on g.canonical_id = k.canonical_id
  join chunks s on s.chunk_id = g.chunk_id
  where k.superseded_by is null and k.deleted_at is null and s.superseded_by is null and s.deleted_at is null
),
placed as (
  select *, row_number() over (
              partition by canonical_id order by stands desc, first_seen, chunk_id, seen_at, occurrence_id) as place,
         list_sort(list_distinct(list(corpus_id) over (partition by canonical_id))) as corpus_ids,
         count(*) over (partition by canonical_id) as occurrences,
         min(seen_at) over (partition by canonical_id) as first_seen_at,
         max(seen_at) over (partition by canonical_id) as last_seen_at
  from seen
)
select canonical_id, chunk_id, scope, corpus_id, type as corpus_type, name as corpus_name, corpus_ids, kind, text,
       metadata, source, source_row_id, source_doc_id, occurrences, first_seen_at, last_seen_at
from placed
where place = 1
order by canonical_id;
comment on macro table visible_chunks is
  'One row for each thing said that an agent may show a user; counts and times are of what the user may see alone.';

create or replace view document_status as
select d.corpus_id, c.name as corpus_name, c.type as corpus_type, d.document_id, d.status, d.reason,
       count(distinct o.chunk_id) as chunks,
       count(distinct o.chunk_id) filter (k.completion_status = 'complete') as complete_chunks,
       count(o.occurrence_id) as row_count, max(o.seen_at) as last_row_at
from corpus_documents d
join corpora c on c.corpus_id = d.corpus_id
left join occurrences o on o.corpus_id = d.corpus_id and o.scope = c.scope and o.source_doc_id = d.source_doc_id
 and (d.source is null or o.source = d.source)
left join chunks k on k.chunk_id = o.chunk_id
group by all
order by d.corpus_id, d.document_id;
comment on view document_status is 'How far each document of a corpus has come: its status, why, and how many of its chunks are complete.';

create or replace view vector_tables as
select table_name, split_part(table_name, '_', 1) as kind
from (select unnest(json_keys(table_versions::json)) as table_name from runs where run_id = (select run_id from mart_run))
where kind in ('vectors', 'retrieval')
order by table_name;
comment on view vector_tables is
  'The Lance tables of vectors of the run that is shown: of every chunk (vectors), and of every chunk in a corpus (retrieval).';
