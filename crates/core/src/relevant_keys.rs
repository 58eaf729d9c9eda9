//! Which keys the queries of a sequence should look at, as far as a task knows it.

/// The positions of a sequence that answers have to be looked up from: the same for every query, or others for each query at which
/// a question is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelevantKeys {
    /// Where the keys of each query begin in `keys`, and where the last ones end. Ends with the last query that has any. Empty if
    /// every query has all of `keys`.
    starts: Vec<u32>,
    keys: Vec<u32>,
}

impl RelevantKeys {
    /// The same keys for every query, given in ascending order.
    pub fn shared(keys: impl IntoIterator<Item = usize>) -> Self {
        RelevantKeys { starts: Vec::new(), keys: keys.into_iter().map(index).collect() }
    }

    /// Some queries with the keys of each, in any order. A query may come several times: it has the keys of all its entries.
    pub fn of_queries<K: IntoIterator<Item = usize>>(queries: impl IntoIterator<Item = (usize, K)>) -> Self {
        let pairs = queries.into_iter().flat_map(|(query, keys)| keys.into_iter().map(move |key| (query, index(key))));
        let mut pairs: Vec<(usize, u32)> = pairs.collect();
        pairs.sort_unstable();
        pairs.dedup();
        let rows = pairs.last().map_or(0, |(last, _)| last + 1);
        let start = |query| index(pairs.partition_point(|pair| pair.0 < query));
        RelevantKeys { starts: (0..=rows).map(start).collect(), keys: pairs.iter().map(|pair| pair.1).collect() }
    }

    /// The keys of a query that sees the first `visible` ones, in ascending order; none if nothing is known about the query. Keys that
    /// all queries share are given whole: they say what the sequence is about, not what this query has to see.
    pub fn of_query(&self, query: usize, visible: usize) -> Option<&[u32]> {
        if self.starts.is_empty() {
            return Some(&self.keys);
        }
        let bounds = self.starts.get(query..query + 2)?;
        let keys = &self.keys[bounds[0] as usize..bounds[1] as usize];
        let seen = &keys[..keys.partition_point(|&key| (key as usize) < visible)];
        (!seen.is_empty()).then_some(seen)
    }

    /// How many numbers this consists of, each of four bytes.
    pub fn size(&self) -> usize {
        self.starts.len() + self.keys.len()
    }
}

fn index(position: usize) -> u32 {
    u32::try_from(position).expect("fewer than 2^32 positions and keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_has_its_own_keys_among_those_it_sees() {
        let keys = RelevantKeys::of_queries([(5, vec![1, 4, 9]), (2, vec![0]), (3, vec![]), (5, vec![2, 4])]);
        let of = |query| keys.of_query(query, 100).map(<[u32]>::to_vec);
        assert_eq!([0, 1, 3, 4, 6, 99].map(of), [const { None }; 6], "nothing is asked there");
        assert_eq!((of(2), of(5)), (Some(vec![0]), Some(vec![1, 2, 4, 9])));
        assert_eq!(keys.of_query(5, 4), Some(&[1, 2][..]));
        assert_eq!((keys.of_query(5, 1), keys.of_query(2, 1)), (None, Some(&[0][..])));
        assert_eq!(keys.size(), 7 + 5);
    }

    #[test]
    fn shared_keys_are_those_of_every_query() {
        let keys = RelevantKeys::shared([0, 7]);
        assert_eq!([0, 500].map(|query| keys.of_query(query, 1)), [Some(&[0, 7][..]); 2]);
        assert_eq!(keys.size(), 2);
        // No question with keys is not the same as the same keys for all.
        let none = RelevantKeys::of_queries([(3, [])]);
        assert_eq!((none.of_query(0, 9), none.of_query(3, 9)), (None, None));
        assert_ne!(none, RelevantKeys::shared([]));
    }
}
