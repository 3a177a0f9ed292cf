//! Vectors of quantisation: values, their lanes, and what the lanes read back as.

use crate::schema::FieldType;
use crate::value::{Field, List};
use serde_json::{Value, json};

pub(super) fn all() -> Vec<Value> {
    [places(), numbers(), angles(), quaternions(), whole(), composed()].concat()
}

/// One row; `show` converts a value to JSON.
fn row<T: Field>(ty: &FieldType, value: &T, show: impl Fn(&T) -> Value) -> Value {
    let mut lanes = vec![0; ty.lanes()];
    value.put(ty, &mut lanes);
    let back = T::get(ty, &lanes);
    json!({ "type": format!("{ty:?}"), "value": show(value), "lanes": lanes, "back": show(&back) })
}

/// JSON has doubles; every `f32` is one.
fn reals(values: &[f32]) -> Value {
    values.iter().map(|value| f64::from(*value)).collect()
}

fn places() -> Vec<Value> {
    let ty = |precision, extent| FieldType::Place { dims: 3, precision, extent, motion: true };
    let mut rows = Vec::new();
    for ty in [ty(0.125, 2_048.0), ty(0.1, 1_000.0), ty(0.003, 50_000.0)] {
        for at in
            [[0.0, -0.0, 1.0], [0.0625, -0.0625, 0.05], [9e9, -9e9, 999.95], [-123.456, 7.77, 0.1]]
        {
            rows.push(row(&ty, &at, |at| reals(at)));
        }
    }
    rows
}

fn numbers() -> Vec<Value> {
    let ty = FieldType::Number { precision: 0.01, min: -10.0, max: 1e6 };
    let values = [0.0, 0.005, -0.005, 0.015, -11.0, 2e6, 3.25159, 123_456.79];
    values.map(|value: f32| row(&ty, &value, |value| reals(&[*value]))).to_vec()
}

fn angles() -> Vec<Value> {
    let mut rows = Vec::new();
    for steps in [2, 7, 240, 65_536] {
        let ty = FieldType::Angle { steps };
        for angle in [0.0, 1.0, -1.0, 3.25159, -3.25159, 6.2831855, 100.0, -0.001f32] {
            rows.push(row(&ty, &angle, |angle| reals(&[*angle])));
        }
    }
    rows
}

fn quaternions() -> Vec<Value> {
    let parts = [
        [0.0, 0.0, 0.0, 1.0],
        [0.5, 0.5, 0.5, 0.5],
        [0.0, 0.0, 0.0, 0.0],
        [-0.9, 0.1, 0.2, 0.3],
        [3.0, -4.0, 0.0, 0.5],
        [0.1, 0.7, -0.7, 0.1f32],
    ];
    let types = [4, 11, 15].map(|bits| FieldType::Quaternion { bits });
    types.iter().flat_map(|ty| parts.map(|q| row(ty, &q, |q| reals(q)))).collect()
}

fn whole() -> Vec<Value> {
    let health = FieldType::Integer { min: 1, max: 200 };
    let flag = FieldType::Symbol { count: 2 };
    let mut rows = [0u8, 1, 77, 255].map(|value| row(&health, &value, |v| json!(v))).to_vec();
    let any = u32::field_type();
    rows.extend([0u32, 5, u32::MAX].map(|value| row(&any, &value, |v| json!(v))));
    rows.extend([false, true].map(|value| row(&flag, &value, |v| json!(v))));
    rows
}

fn composed() -> Vec<Value> {
    let text = FieldType::Text { max: 6 };
    let mut rows: Vec<Value> = ["", "abc", "abcdefgh", "größer", "日本語"]
        .map(|value| row(&text, &value.to_owned(), |v| json!(v)))
        .to_vec();
    let bytes = FieldType::Bytes { max: 5 };
    let all = [vec![], vec![1u8, 2, 3, 4], vec![255; 9]];
    rows.extend(all.map(|value| row(&bytes, &value, |v| json!(v))));
    let optional = FieldType::Optional(Box::new(FieldType::Integer { min: -5, max: 5 }));
    rows.extend([None, Some(3), Some(-9i8)].map(|value| row(&optional, &value, |v| json!(v))));
    let list = <List<Option<u8>, 3>>::field_type();
    let lists = [vec![], vec![Some(1), None], vec![Some(9); 5]];
    rows.extend(lists.map(|value| row(&list, &List::<_, 3>(value), |v| json!(v.0))));
    rows
}
