//! The ordered map of the state: persistent, so that a copy for a snapshot or a reader costs nothing.

use std::ops::RangeBounds;
use std::sync::Arc;

use bincode::de::{BorrowDecode, BorrowDecoder, Decode, Decoder};
use bincode::enc::{Encode, Encoder};
use bincode::error::{DecodeError, EncodeError};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;

/// An ordered map whose clone shares everything; a change copies the path to it and the value, nothing else.
///
/// DETERMINISM: iteration is in the order of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map<K: Ord + Clone, V: Clone>(OrdMap<K, Arc<V>>);

impl<K: Ord + Clone, V: Clone> Default for Map<K, V> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<K: Ord + Clone, V: Clone> Map<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key).map(|value| &**value)
    }

    /// The value at `key`, to change it; what shares it keeps the old one.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key).map(Arc::make_mut)
    }

    /// Whether `key` is in it.
    pub fn contains_key(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Puts `value` at `key`, whatever was there.
    pub fn insert(&mut self, key: K, value: V) {
        self.0.insert(key, Arc::new(value));
    }

    /// Puts `value` at `key`, or takes `key` out; nothing is written where it stands so already.
    pub fn put(&mut self, key: K, value: Option<V>)
    where
        V: PartialEq,
    {
        match value {
            Some(value) if self.get(&key) != Some(&value) => self.insert(key, value),
            None if self.contains_key(&key) => {
                self.remove(&key);
            }
            Some(_) | None => {}
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key).map(Arc::unwrap_or_clone)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first in the order of the keys; cheaper than an iterator's.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.0.get_min().map(|(key, value)| (key, &**value))
    }

    /// All of it, in the order of the keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, &**value))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The keys whose values differ in `newer`, with both values; what the two share isn't looked at.
    pub(crate) fn changes<'a>(
        &'a self,
        newer: &'a Self,
    ) -> impl Iterator<Item = (&'a K, Option<&'a V>, Option<&'a V>)> + use<'a, K, V>
    where
        V: PartialEq,
    {
        self.0.diff(&newer.0).map(|change| match change {
            DiffItem::Add(key, new) => (key, None, Some(&**new)),
            DiffItem::Update { old: (_, old), new: (key, new) } => (key, Some(&**old), Some(&**new)),
            DiffItem::Remove(key, old) => (key, Some(&**old), None),
        })
    }

    /// What lies in `range`, in the order of the keys.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.range(range).map(|(key, value)| (key, &**value))
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(key, value)| (key, Arc::new(value))).collect())
    }
}

/// Length, then keys and values in order.
impl<K: Ord + Clone + Encode, V: Clone + Encode> Encode for Map<K, V> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        (self.len() as u64).encode(encoder)?;
        self.iter().try_for_each(|(key, value)| {
            key.encode(encoder)?;
            value.encode(encoder)
        })
    }
}

impl<C, K: Ord + Clone + Decode<C>, V: Clone + Decode<C>> Decode<C> for Map<K, V> {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let len = u64::decode(decoder)?;
        Self::from_decoded(len, || Ok((K::decode(decoder)?, V::decode(decoder)?)))
    }
}

impl<'de, C, K: Ord + Clone + BorrowDecode<'de, C>, V: Clone + BorrowDecode<'de, C>> BorrowDecode<'de, C>
    for Map<K, V>
{
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let len = u64::decode(decoder)?;
        Self::from_decoded(len, || Ok((K::borrow_decode(decoder)?, V::borrow_decode(decoder)?)))
    }
}

impl<K: Ord + Clone, V: Clone> Map<K, V> {
    /// No allocation by the length: a damaged one runs into the end of the bytes.
    fn from_decoded(len: u64, mut next: impl FnMut() -> Result<(K, V), DecodeError>) -> Result<Self, DecodeError> {
        let mut map = Self::default();
        for _ in 0..len {
            let (key, value) = next()?;
            map.insert(key, value);
        }
        if map.len() as u64 == len { Ok(map) } else { Err(DecodeError::Other("a key stands twice in a map")) }
    }
}
