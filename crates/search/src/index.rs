//! The index: postings for BM25F, and the search over them.
//!
//! Constants are those measured on the MetaTool requests: k1 1.6; name (weight 3, length
//! normalisation .3), provider (1, 0), description (1, .4), parameters (.7, .6).

use std::collections::HashMap;

use crate::entry::{DESCRIPTION, Document, Entry, FIELDS, NAME, PARAMETERS, PROVIDER};
use crate::exact::ExactNames;
use crate::terms::{Side, Term, terms};
use crate::tokens::folded;

const SATURATION: f32 = 1.6;
const WEIGHT: [f32; FIELDS] = {
    let mut weight = [0.0; FIELDS];
    weight[NAME] = 3.0;
    weight[PROVIDER] = 1.0;
    weight[DESCRIPTION] = 1.0;
    weight[PARAMETERS] = 0.7;
    weight
};
const LENGTH_PENALTY: [f32; FIELDS] = {
    let mut penalty = [0.0; FIELDS];
    penalty[NAME] = 0.3;
    penalty[PROVIDER] = 0.0;
    penalty[DESCRIPTION] = 0.4;
    penalty[PARAMETERS] = 0.6;
    penalty
};

/// A word that merely starts like a term of the query counts this much of it.
const PREFIX_SHARE: f32 = 0.5;
/// Shorter beginnings fit too many words to mean one.
const MIN_PREFIX_CHARS: usize = 4;
/// How many words one beginning is completed to, in alphabetical order.
const MAX_COMPLETIONS: usize = 64;
/// How much of a query is read, in bytes and in distinct terms.
const MAX_QUERY_BYTES: usize = 8 * 1024;
const MAX_QUERY_TERMS: usize = 64;

/// What a hit gets that only holds the query somewhere inside its name.
const LITERAL_SCORE: f32 = 0.1;
/// What a hit gets that the query names outright; above every score made of words.
const EXACT_SCORE: f32 = 1.0;
/// From which score on a hit made of words may be the only strong one, and how many times
/// the next one's score it must have. On the MetaTool requests 19 of 20 such hits are right.
const STRONG_SCORE: f32 = 0.25;
const STRONG_LEAD: f32 = 2.0;

/// One found document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Its place in what the index was built from.
    pub document: usize,
    /// 1 when named outright; below 1 for matching words, where 1 would be every word of the
    /// query in every field; 0.1 when the query merely occurs inside the name.
    pub score: f32,
    /// The query names this tool outright.
    pub exact: bool,
    /// This is the one strong match of the whole ranking, hits beyond the limit included.
    pub sole: bool,
}

/// The hit that is the only strong match of its search, if there is one: the only tool
/// named outright, else a clear first among those found by words.
#[must_use]
pub fn strong_single(hits: &[Hit]) -> Option<&Hit> {
    hits.iter().find(|hit| hit.sole)
}

/// An immutable index over documents, searched by [`Index::search`].
#[derive(Clone, Debug, Default)]
pub struct Index {
    exact: ExactNames,
    /// Lower-cased names, by document.
    names: Box<[Box<str>]>,
    /// Place of each document in name order; and the reverse.
    rank: Box<[u32]>,
    by_rank: Box<[u32]>,
    /// Sorted; place = term.
    vocabulary: Box<[Box<str>]>,
    rarity: Box<[f32]>,
    /// Postings of term `t` are `postings[starts[t]..starts[t + 1]]`, by document.
    starts: Box<[u32]>,
    postings: Box<[Posting]>,
    /// Every word and every stem, sorted, with its term: what a beginning is completed to.
    words: Box<[(Box<str>, u32)]>,
}

#[derive(Clone, Copy, Debug)]
struct Posting {
    document: u32,
    /// Saturated weight of the term in the document, between 0 and 1.
    weight: f32,
}

impl Index {
    /// Reads and indexes `documents`; a [`Hit::document`] is a place in them.
    #[must_use]
    pub fn build<'a>(documents: impl IntoIterator<Item = Document<'a>>) -> Index {
        let entries: Vec<Entry> = documents
            .into_iter()
            .map(|each| Entry::new(&each))
            .collect();
        Index::from_entries(&entries)
    }

    /// Indexes documents that were read before; a [`Hit::document`] is a place in them.
    #[must_use]
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Index {
        let entries: Vec<&Entry> = entries.into_iter().collect();
        let mut by_rank: Vec<u32> = (0u32..).zip(&entries).map(|(place, _)| place).collect();
        by_rank.sort_by_key(|place| entries[*place as usize].name());
        let mut rank = vec![0; entries.len()];
        for (place, document) in (0u32..).zip(&by_rank) {
            rank[*document as usize] = place;
        }

        let mut collected = Collected::default();
        let scales = length_scales(&entries);
        for (document, entry) in (0u32..).zip(&entries) {
            collected.add(document, entry, &scales);
        }
        let mut index = collected.finish(entries.len());
        index.exact = ExactNames::build(&entries);
        index.names = entries
            .iter()
            .map(|entry| folded(entry.name()).into())
            .collect();
        index.rank = rank.into();
        index.by_rank = by_rank.into();
        index
    }

    /// How many documents are indexed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether nothing is indexed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The documents that match `query`, best first, at most `limit`.
    ///
    /// 1. Tools the query names outright, in the order it names them.
    /// 2. Tools sharing words with it, by score; equal scores by name.
    /// 3. Only if there are neither: tools whose name holds the whole query, by name.
    ///
    /// A query is read up to 8 KiB and 64 distinct terms. Same index and query, same answer.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let query = query[..query.floor_char_boundary(MAX_QUERY_BYTES)].trim();
        if query.is_empty() {
            return Vec::new();
        }
        let exact = self.exact.find(query, &self.rank);
        let mut scores = self.lexical(query);
        let mut hits = Vec::with_capacity(exact.len());
        for document in &exact {
            // Listed once, as named; not again for its words.
            scores[*document as usize] = 0.0;
            hits.push(Hit {
                document: *document as usize,
                score: EXACT_SCORE,
                exact: true,
                sole: exact.len() == 1,
            });
        }
        // At least two, because the second decides whether the first is alone at the top.
        let wanted = limit.saturating_sub(hits.len()).max(2);
        let mut by_words = self.best(&scores, wanted);
        if hits.is_empty() {
            mark_sole(&mut by_words);
        }
        hits.append(&mut by_words);
        if hits.is_empty() {
            hits = self.literal(query, limit);
        }
        hits.truncate(limit);
        hits
    }

    /// BM25F of every document, as a share of what a perfect match would get. Another kind of
    /// evidence can be added to these scores before [`Index::best`] ranks them.
    fn lexical(&self, query: &str) -> Vec<f32> {
        let mut scores = vec![0.0; self.len()];
        let mut scratch = Scratch::new(self.len());
        let mut total = 0.0;
        for term in distinct(terms(query, Side::Query)) {
            let known = self.term(&term.stem);
            // A term no document holds still counts in the total: a query half of which is
            // foreign to the index is half matched at best.
            let rarity = known.map_or_else(|| rarity(self.len(), 0), |term| self.rarity[term]);
            total += rarity;
            if let Some(known) = known {
                for posting in self.postings(known) {
                    scratch.raise(posting.document, posting.weight * rarity);
                }
            }
            for completion in self.completions(&term, known) {
                // A rare completion must not outweigh the word that was really written.
                let share = PREFIX_SHARE * self.rarity[completion].min(rarity);
                for posting in self.postings(completion) {
                    scratch.raise(posting.document, posting.weight * share);
                }
            }
            scratch.drain_into(&mut scores);
        }
        if total > 0.0 {
            for score in &mut scores {
                *score /= total;
            }
        }
        scores
    }

    fn term(&self, stem: &str) -> Option<usize> {
        self.vocabulary
            .binary_search_by(|other| (**other).cmp(stem))
            .ok()
    }

    fn postings(&self, term: usize) -> &[Posting] {
        &self.postings[self.starts[term] as usize..self.starts[term + 1] as usize]
    }

    /// The terms whose words start with `term` as written, `known` itself left out.
    fn completions(&self, term: &Term, known: Option<usize>) -> Vec<usize> {
        if term.surface.chars().count() < MIN_PREFIX_CHARS {
            return Vec::new();
        }
        let prefix = term.surface.as_str();
        let start = self.words.partition_point(|(word, _)| **word < *prefix);
        let mut found: Vec<usize> = self.words[start..]
            .iter()
            .take_while(|(word, _)| word.starts_with(prefix))
            .map(|(_, term)| *term as usize)
            .filter(|term| Some(*term) != known)
            .take(MAX_COMPLETIONS)
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The `limit` best of `scores`, zeros left out.
    fn best(&self, scores: &[f32], limit: usize) -> Vec<Hit> {
        // Bits of positive floats sort like the floats; the inverted name rank below them
        // makes every key different, so the order is total and cheap to compare.
        let mut keys: Vec<u64> = scores
            .iter()
            .zip(&self.rank)
            .filter(|(score, _)| **score > 0.0)
            .map(|(score, rank)| u64::from(score.to_bits()) << 32 | u64::from(!rank))
            .collect();
        let descending = |key: &u64| std::cmp::Reverse(*key);
        if limit < keys.len() {
            keys.select_nth_unstable_by_key(limit, descending);
            keys.truncate(limit);
        }
        keys.sort_unstable_by_key(descending);
        keys.into_iter()
            .map(|key| {
                let rank = !(key as u32);
                let document = self.by_rank[rank as usize] as usize;
                Hit {
                    document,
                    score: scores[document],
                    exact: false,
                    sole: false,
                }
            })
            .collect()
    }

    /// The first `limit` documents in name order whose name holds `query`.
    fn literal(&self, query: &str, limit: usize) -> Vec<Hit> {
        let query = folded(query);
        self.by_rank
            .iter()
            .map(|document| *document as usize)
            .filter(|document| self.names[*document].contains(&query))
            .take(limit)
            .map(|document| Hit {
                document,
                score: LITERAL_SCORE,
                exact: false,
                sole: false,
            })
            .collect()
    }
}

fn mark_sole(by_words: &mut [Hit]) {
    let second = by_words.get(1).map_or(0.0, |hit| hit.score);
    if let Some(first) = by_words.first_mut() {
        first.sole = first.score >= STRONG_SCORE && first.score >= second * STRONG_LEAD;
    }
}

/// The first of each stem, up to the bound, in the order of the query.
fn distinct(terms: Vec<Term>) -> Vec<Term> {
    let mut kept: Vec<Term> = Vec::new();
    for term in terms {
        if kept.len() == MAX_QUERY_TERMS {
            break;
        }
        if kept.iter().all(|other| other.stem != term.stem) {
            kept.push(term);
        }
    }
    kept
}

/// Inverse document frequency; positive even for a term that every document holds.
fn rarity(documents: usize, holding: usize) -> f32 {
    let (documents, holding) = (documents as f32, holding as f32);
    ((documents - holding + 0.5) / (holding + 0.5)).ln_1p()
}

/// Per field: the average length over the documents that have the field.
fn length_scales(entries: &[&Entry]) -> [f32; FIELDS] {
    std::array::from_fn(|field| {
        let lengths = entries.iter().map(|entry| entry.lengths()[field]);
        let filled = lengths.clone().filter(|length| *length > 0).count();
        let total: u64 = lengths.map(u64::from).sum();
        if filled == 0 {
            1.0
        } else {
            total as f32 / filled as f32
        }
    })
}

/// The best evidence of one query term for each document, then added up.
struct Scratch {
    best: Vec<f32>,
    touched: Vec<u32>,
}

impl Scratch {
    fn new(documents: usize) -> Scratch {
        Scratch {
            best: vec![0.0; documents],
            touched: Vec::with_capacity(documents),
        }
    }

    fn raise(&mut self, document: u32, score: f32) {
        let best = &mut self.best[document as usize];
        if *best == 0.0 {
            self.touched.push(document);
        }
        *best = best.max(score);
    }

    fn drain_into(&mut self, scores: &mut [f32]) {
        for document in self.touched.drain(..) {
            let best = &mut self.best[document as usize];
            scores[document as usize] += std::mem::take(best);
        }
    }
}

/// Terms in the order in which they are first met; sorted when finished, so that the hash
/// order of the map never shows.
#[derive(Default)]
struct Collected<'a> {
    places: HashMap<&'a str, u32>,
    terms: Vec<CollectedTerm<'a>>,
}

struct CollectedTerm<'a> {
    text: &'a str,
    postings: Vec<Posting>,
    /// The words that were cut down to `text`; a handful, since a stem has few endings.
    words: Vec<&'a str>,
}

impl<'a> Collected<'a> {
    fn add(&mut self, document: u32, entry: &'a Entry, scales: &[f32; FIELDS]) {
        let lengths = entry.lengths();
        let share: [f32; FIELDS] = std::array::from_fn(|field| {
            let penalty = LENGTH_PENALTY[field];
            WEIGHT[field] / (1.0 - penalty + penalty * lengths[field] as f32 / scales[field])
        });
        let mut places = Vec::new();
        for (text, counts) in entry.terms() {
            let place = *self.places.entry(text).or_insert_with(|| {
                self.terms.push(CollectedTerm {
                    text,
                    postings: Vec::new(),
                    words: Vec::new(),
                });
                self.terms.len() as u32 - 1
            });
            places.push(place as usize);
            let count: f32 = (0..FIELDS)
                .map(|field| f32::from(counts[field]) * share[field])
                .sum();
            let weight = count / (count + SATURATION);
            let postings = &mut self.terms[place as usize].postings;
            postings.push(Posting { document, weight });
        }
        for (word, term) in entry.surfaces() {
            let words = &mut self.terms[places[term]].words;
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }

    fn finish(self, documents: usize) -> Index {
        let mut terms = self.terms;
        terms.sort_unstable_by_key(|term| term.text);
        let mut starts = vec![0u32];
        let mut postings = Vec::new();
        let mut words: Vec<(Box<str>, u32)> = Vec::new();
        for (place, term) in (0u32..).zip(&terms) {
            postings.extend_from_slice(&term.postings);
            starts.push(postings.len() as u32);
            words.push((term.text.into(), place));
            words.extend(term.words.iter().map(|word| ((*word).into(), place)));
        }
        words.sort_unstable();
        Index {
            vocabulary: terms.iter().map(|term| term.text.into()).collect(),
            rarity: terms
                .iter()
                .map(|term| rarity(documents, term.postings.len()))
                .collect(),
            starts: starts.into(),
            postings: postings.into(),
            words: words.into(),
            ..Index::default()
        }
    }
}
