//! Decoding that cannot fail on a value of the wrong kind.
//!
//! One object that cannot be decoded would end the watch of its whole kind, so every part that is
//! read has a meaning for every JSON value: what is not understood counts as absent.

use std::{fmt, marker::PhantomData};

use serde::de::{
    Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
    value::MapAccessDeserializer,
};

/// A scalar, or whatever stands in its place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Scalar {
    /// Null, absent, a list or a map.
    #[default]
    Nothing,
    /// true or false.
    Bool(bool),
    /// A whole number; larger ones are cut to the nearest that fits.
    Int(i64),
    /// Text.
    Text(String),
}

impl Scalar {
    /// The number, cut to the range of an i32; `None` for anything else.
    pub fn int32(&self) -> Option<i32> {
        let clamp = |value: i64| value.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
        self.int64().and_then(|value| i32::try_from(clamp(value)).ok())
    }

    /// The number; `None` for anything else.
    pub fn int64(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The text read as a number, as the Deployment controller reads its annotations.
    pub fn parsed(&self) -> Option<i32> {
        match self {
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The text; empty for anything else.
    pub fn text(self) -> String {
        self.some_text().unwrap_or_default()
    }

    /// The text; `None` for anything else.
    pub fn some_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is true.
    pub fn is_true(&self) -> bool {
        *self == Self::Bool(true)
    }

    /// Whether it is this text.
    pub fn is(&self, text: &str) -> bool {
        matches!(self, Self::Text(own) if own == text)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }
            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Nothing)
            }
            fn visit_none<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Nothing)
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Scalar, D::Error> {
                Scalar::deserialize(d)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Int(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX)))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                // The cast cuts to the range and makes NaN 0.
                #[allow(clippy::cast_possible_truncation)]
                Ok(Scalar::Int(value as i64))
            }
            fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(value.to_owned()))
            }
            fn visit_string<E>(self, value: String) -> Result<Scalar, E> {
                Ok(Scalar::Text(value))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Scalar, A::Error> {
                IgnoredAny.visit_seq(seq)?;
                Ok(Scalar::Nothing)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Scalar, A::Error> {
                IgnoredAny.visit_map(map)?;
                Ok(Scalar::Nothing)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// A map with known fields, or the default where something else stands in its place.
#[derive(Debug, Clone, Default)]
pub(super) struct Map<T>(pub T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(Whole(PhantomData::<T>))
            .map(|(map, _): (Option<T>, Vec<T>)| Self(map.unwrap_or_default()))
    }
}

/// A list of maps, or nothing where something else stands in its place.
#[derive(Debug, Clone, Default)]
pub(super) struct List<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(Whole(PhantomData::<T>))
            .map(|(_, list): (Option<T>, Vec<T>)| Self(list))
    }
}

/// Takes a map, or a list of maps, and nothing of any scalar.
struct Whole<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for Whole<T> {
    type Value = (Option<T>, Vec<T>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok((None, Vec::new()))
    }
    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok((None, Vec::new()))
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_any(self)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok((None, Vec::new()))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok((None, Vec::new()))
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok((None, Vec::new()))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok((None, Vec::new()))
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok((None, Vec::new()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Map(item)) = seq.next_element()? {
            list.push(item);
        }
        Ok((None, list))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let item = T::deserialize(MapAccessDeserializer::new(map))?;
        Ok((Some(item), Vec::new()))
    }
}
