-- What an analyst reaches for. Every view reads only the tables of this file.

create or replace view canonical_chunks as
select c.canonical_id, k.chunk_id, k.scope, k.kind, k.text, k.metadata, k.source, k.source_row_id, k.source_doc_id,
       k.content_hash, k.parsed_spec_ids, c.variants, c.occurrences, c.first_seen_at, c.last_seen_at
from canonicals c
join chunks k on k.chunk_id = c.chunk_id
where k.superseded_by is null and k.deleted_at is null;
comment on view canonical_chunks is 'One row for each thing said: what a search should read.';

create or replace view duplicates as
-- A row that repeats a content: the duplicate, and the row that represents that content.
select o.scope, 'exact' as duplicate_kind, o.occurrence_id, o.source, o.source_row_id, k.chunk_id, k.canonical_id,
       k.source as duplicate_of_source, k.source_row_id as duplicate_of_row, k.text, 1.0::float as similarity,
       'same content hash' as reason, o.run_id, o.seen_at
from occurrences o
join chunks k on k.chunk_id = o.chunk_id
where (o.source, o.source_row_id, coalesce(o.chunk_index, -1))
   is distinct from (k.source, k.source_row_id, coalesce(k.chunk_index, -1))
union all
-- A content merged into another: the row that represents it, and the row that stands for the group. Further rows of
-- that content are exact duplicates of its representative and are above, so that no row is here twice.
select o.scope, 'merged', o.occurrence_id, o.source, o.source_row_id, k.chunk_id, v.canonical_id,
       s.source, s.source_row_id, k.text, v.similarity, v.reason, v.run_id, o.seen_at
from variants v
join chunks k on k.chunk_id = v.chunk_id
join occurrences o on o.chunk_id = k.chunk_id
 and (o.source, o.source_row_id, coalesce(o.chunk_index, -1))
     is not distinct from (k.source, k.source_row_id, coalesce(k.chunk_index, -1))
join canonicals c on c.canonical_id = v.canonical_id
join chunks s on s.chunk_id = c.chunk_id;
comment on view duplicates is 'Every input row that said nothing new, and which row it was a duplicate of.';

create or replace view duplicate_rate_by_source as
select o.scope, o.source, count(*) as row_count, count(distinct o.chunk_id) as distinct_contents,
       count(*) filter (d.occurrence_id is not null) as duplicate_rows,
       round(count(*) filter (d.occurrence_id is not null) / count(*), 4) as duplicate_rate
from occurrences o
left join duplicates d on d.occurrence_id = o.occurrence_id
group by all
order by duplicate_rows desc, o.scope, o.source;
comment on view duplicate_rate_by_source is 'How much of each source was already there, by scope.';

create or replace view rejects_by_rule as
select reason as rule, source, count(*) filter (last_run_id = latest) as tonight, count(*) as ever,
       coalesce(min(locator) filter (last_run_id = latest), min(locator)) as example
from rejects, (select max_by(run_id, published_at) as latest from runs where status = 'published' and decisions is null)
group by all
order by tonight desc, ever desc, rule, source;
comment on view rejects_by_rule is
  'Rows refused at the door, by the rule they broke: in the latest run and ever, with one place to look.';

create or replace view run_history as
select run_id, status, restores, started_at, published_at, rows_in, rows_rejected, occurrences_new, occurrences_known,
       chunks_new, chunks_touched, recall_measured,
       round(list_sum(map_values(stage_seconds::json::map(varchar, double))), 2) as seconds,
       note
from runs
order by run_id desc;
comment on view run_history is 'Runs, newest first, with what they added and how long they took.';

create or replace view spec_rows as
select k.canonical_id, k.chunk_id, k.scope,
       k.metadata ->> 'parent_category' as parent_category, k.metadata ->> 'sub_category' as sub_category,
       k.metadata ->> 'specification' as specification, k.metadata ->> 'value' as value,
       k.metadata ->> 'additional' as additional, k.parsed_spec_ids, k.occurrences, k.text
from canonical_chunks k
where k.kind = 'spec_row';
comment on view spec_rows is 'Distinct spec rows with their five fields and the parsed specs that say them.';

create or replace view spec_rows_by_category as
select scope, parent_category, sub_category, count(*) as distinct_rows, sum(occurrences)::bigint as occurrences,
       list({specification: specification, value: value} order by specification, value) as specifications
from spec_rows
group by all
order by scope, parent_category, sub_category;
comment on view spec_rows_by_category is 'Spec rows grouped by parent and sub category.';

create or replace view candidate_pairs as
select p.scope, round(p.similarity, 4) as similarity, round(p.reading, 4) as reading, p.relation,
       round(p.confidence, 4) as confidence, p.action, p.evidence, l.text as left_text, r.text as right_text,
       l.source as left_source, l.source_row_id as left_row, r.source as right_source, r.source_row_id as right_row,
       p.stands, p.decided_by, p.left_id, p.right_id, p.pair_id, p.run_id
from pairs p
join chunks l on l.chunk_id = p.left_id
join chunks r on r.chunk_id = p.right_id
order by p.similarity desc, p.pair_id;
comment on view candidate_pairs is
  'Chunks that may say the same, nearest first, with the text of both, what they were judged to be and what came of it.';

create or replace view merged as
select v.scope, v.canonical_id, s.text as text, k.text as merged_text, v.relation, round(v.similarity, 4) as similarity,
       round(v.confidence, 4) as confidence, v.reason, v.decided_by, s.source, s.source_row_id,
       k.source as merged_source, k.source_row_id as merged_row, k.occurrences as merged_occurrences,
       s.chunk_id, k.chunk_id as merged_chunk_id, v.run_id
from variants v
join chunks k on k.chunk_id = v.chunk_id
join canonicals c on c.canonical_id = v.canonical_id
join chunks s on s.chunk_id = c.chunk_id
order by v.scope, v.canonical_id, k.chunk_id;
comment on view merged is 'Every merged chunk beside the text that stands for it, with the reason.';

create or replace view open_contradictions as
select d.scope, d.evidence, l.text as left_text, r.text as right_text, l.source as left_source,
       l.source_row_id as left_row, r.source as right_source, r.source_row_id as right_row,
       d.left_id, d.right_id, d.pair_id, d.run_id
from contradictions d
join chunks l on l.chunk_id = d.left_id
join chunks r on r.chunk_id = d.right_id
where d.status = 'open'
order by d.scope, d.pair_id;
comment on view open_contradictions is 'Chunks that disagree, side by side, with what they disagree on.';

create or replace view review_queue as
select q.scope, k.text, q.reason, c.text as best_candidate, json_array_length(q.candidates) as candidates,
       k.source, k.source_row_id, q.queued_at, q.chunk_id, q.candidates ->> '$[0].chunk_id' as best_chunk_id,
       q.review_id
from pending_reviews q
join chunks k on k.chunk_id = q.chunk_id
left join chunks c on c.chunk_id = q.candidates ->> '$[0].chunk_id'
where q.reviewed_at is null
order by q.queued_at, q.review_id;
comment on view review_queue is 'Open questions, oldest first: a chunk, the best of those it may be the same as, and why.';

create or replace view superseded as
select k.scope, k.text, k.valid_from, k.valid_to, n.text as superseded_by_text, k.source, k.source_row_id,
       n.source as superseded_by_source, n.source_row_id as superseded_by_row, k.chunk_id, k.superseded_by
from chunks k
join chunks n on n.chunk_id = k.superseded_by
order by k.scope, k.valid_to, k.chunk_id;
comment on view superseded is 'What no longer holds: each replaced chunk, its time, and what replaced it.';

create or replace view legacy_ids as
-- Every row that a backfill brought in, with what an application puts in the place of its old id; and the rows of those
-- sources that were refused.
select l.scope, l.source, l.old_id, l.chunk_index, l.chunk_id, k.canonical_id, l.row_hash as content_hash,
       k.completion_status,
       c.chunk_id <> k.chunk_id or (l.source, l.old_id, coalesce(l.chunk_index, -1))
         is distinct from (k.source, k.source_row_id, coalesce(k.chunk_index, -1)) as is_duplicate,
       l.shape, l.hash_was, l.embedding_was, null::varchar as rejected_by
from legacy_rows l
join chunks k on k.chunk_id = l.chunk_id
join canonicals c on c.canonical_id = k.canonical_id
union all
select null, r.source, coalesce(r.source_row_id, r.locator), null, null, null, null, null, null, null, null, null, r.reason
from rejects r
where r.source in (select source from legacy_rows)
  and not exists (from legacy_rows l where l.source = r.source and l.old_id = r.source_row_id);
comment on view legacy_ids is
  'The id of each backfilled row in its old system, its chunk and its canonical as of the latest run; beside them the rejects.';

-- The list of open questions, flat and in its order, so that a page of it costs the same however long it is.
create or replace table review_items as
with asked as (
  select q.review_id, q.scope, q.chunk_id, q.reason, q.queued_at, epoch_us(q.queued_at) as asked_us,
         from_json(q.candidates, '[{"chunk_id": "VARCHAR", "similarity": "DOUBLE", "reading": "DOUBLE",
                                    "relation": "VARCHAR", "confidence": "DOUBLE"}]') as candidates
  from pending_reviews q
  where q.reviewed_at is null
)
select q.review_id, q.scope, q.chunk_id, k.kind, k.source, k.source_row_id, k.text[:300] as text,
       q.candidates[1].relation as relation, q.candidates[1].confidence as confidence,
       coalesce(q.candidates[1].reading, q.candidates[1].similarity) as similarity,
       list_max(list_transform(q.candidates, lambda c: coalesce(c.reading, c.similarity))) as highest_similarity,
       len(q.candidates)::int as candidates, q.candidates[1].chunk_id as best_chunk_id,
       b.canonical_id as best_canonical_id, q.reason, q.queued_at, q.asked_us,
       q.asked_us::hugeint * 18446744073709551616 + ('0x' || q.review_id[:16])::ubigint as place
from asked q
join chunks k on k.chunk_id = q.chunk_id
left join chunks b on b.chunk_id = q.candidates[1].chunk_id
order by place;
comment on table review_items is 'Open questions, oldest first, a line each: what the review page lists.';
comment on column review_items.review_id is 'The question, as in pending_reviews';
comment on column review_items.scope is 'The wall';
comment on column review_items.chunk_id is 'The chunk in question';
comment on column review_items.kind is 'Its kind';
comment on column review_items.source is 'Source of its representing row';
comment on column review_items.source_row_id is 'Row of that source';
comment on column review_items.text is 'The first 300 characters of the chunk in question';
comment on column review_items.relation is 'What the best candidate was judged to be to it';
comment on column review_items.confidence is 'Of that judgement, 0 to 1';
comment on column review_items.similarity is
  'Cosine to the best candidate: as the transformer reads the two, else that of the vectors';
comment on column review_items.highest_similarity is 'The highest such cosine of all its candidates';
comment on column review_items.candidates is 'How many candidates it has';
comment on column review_items.best_chunk_id is 'The best candidate';
comment on column review_items.best_canonical_id is 'The group that the best candidate is in now';
comment on column review_items.reason is 'Why a person is asked';
comment on column review_items.queued_at is 'When it was asked';
comment on column review_items.asked_us is 'queued_at in microseconds';
comment on column review_items.place is 'asked_us and the beginning of review_id as one number: the order of the list';

create or replace view review_log as
select d.decided_at, d.reviewer, d.decision, d.scope, k.text, t.text as target_text, d.notes, q.reason as asked_because,
       d.outcome, d.undone_by, d.undoes, d.batch_id, d.target_canonical_id, d.chunk_id, d.review_id, d.decision_id,
       d.run_id
from review_decisions d
left join chunks k on k.chunk_id = d.chunk_id
left join canonicals c on c.canonical_id = d.target_canonical_id
left join chunks t on t.chunk_id = c.chunk_id
left join pending_reviews q on q.review_id = d.review_id
order by d.seq desc;
comment on view review_log is 'Every decision, latest first, with the text it was about and what came of it.';
