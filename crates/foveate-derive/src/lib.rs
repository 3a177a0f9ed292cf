//! `#[derive(Replicate)]`: a plain struct becomes a replicated kind, a plain enum a replicated field.
//!
//! The macro only passes on what the attributes say. The schema checks all numbers at run time, and
//! names the field in its errors. A field: type and attributes → `FieldSpec` → lanes.
//!
//! | on | attribute | meaning |
//! | --- | --- | --- |
//! | struct | `name = "…"` | the kind's name; default: the struct's in snake case |
//! | struct | `max_speed = 8.0` | units per second that no object of the kind exceeds |
//! | struct | `fall = 16` | how its objects fall, in steps of their place per tick²: a hint to the coder |
//! | field | `place` | where the object is (`[f32; 2]` or `[f32; 3]`) |
//! | field | `motion` | between updates, replicas continue their last motion |
//! | field | `precision`, `extent` | step and largest coordinate of a place |
//! | field | `yaw`, `pitch`, `angle` | an `f32` in radians on the circle; the first two are the facing |
//! | field | `steps = 240` | parts of a turn |
//! | field | `own` | sent only to observers with the object as a pivot: its own player; others read zero |
//! | field | `team` | sent only to the object's own player and team; others read zero (see `Game::team`) |
//! | field | `coarse = 25` | of a number: others than the own player and team are sent multiples of this, rounded away from zero |
//! | field | `floor = 0.5`, `floor_degrees = 15.0` | deviations up to this are not a difference |
//! | field | `precision`, `min`, `max` | of a number; whole numbers are within ±(2³¹ − 1) in any case, and larger values of a `u32` are sent as the largest |
//! | field | `bits = 11` | of a number between `min` and `max`, of a place within `extent`, instead of `precision`; of each part of a quaternion (`[f32; 4]`) |
//! | field | `max_len = 32` | of text or bytes, in bytes |

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Ident, Lit, LitStr};

/// See the [crate's page](crate) for the attributes.
#[proc_macro_derive(Replicate, attributes(replicate))]
pub fn replicate(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    let code = match &input.data {
        Data::Struct(data) => kind(&input, &data.fields),
        Data::Enum(data) => symbol(&input, data),
        Data::Union(_) => Err(Error::new(input.span(), "a union cannot be replicated")),
    };
    code.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// The contents of `#[replicate(…)]`: names and values, with their source positions.
#[derive(Default)]
struct Attributes(Vec<(Ident, Option<Expr>)>);

impl Attributes {
    fn parse(attributes: &[Attribute], known: &[&str]) -> Result<Attributes, Error> {
        let mut said = Attributes::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("replicate")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.require_ident()?.clone();
                if !known.contains(&name.to_string().as_str()) {
                    return Err(
                        meta.error(format!("unknown; expected one of {}", known.join(", ")))
                    );
                }
                if said.has(&name.to_string()) {
                    return Err(meta.error("given twice"));
                }
                let value = meta.input.peek(syn::Token![=]);
                let value = value.then(|| meta.value()?.parse::<Expr>()).transpose()?;
                said.0.push((name, value));
                Ok(())
            })?;
        }
        Ok(said)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| given == name)
    }

    fn value(&self, name: &str) -> Result<Option<&Expr>, Error> {
        let Some((ident, value)) = self.0.iter().find(|(given, _)| given == name) else {
            return Ok(None);
        };
        match value {
            Some(value) => Ok(Some(value)),
            None => Err(Error::new(ident.span(), format!("expected {name} = …"))),
        }
    }
}

const ON_STRUCT: &[&str] = &["name", "max_speed", "fall"];
const ON_FIELD: &[&str] = &[
    "place",
    "motion",
    "precision",
    "extent",
    "yaw",
    "pitch",
    "angle",
    "steps",
    "floor",
    "floor_degrees",
    "min",
    "max",
    "bits",
    "max_len",
    "own",
    "team",
    "coarse",
];

fn kind(input: &DeriveInput, fields: &Fields) -> Result<Tokens, Error> {
    let Fields::Named(fields) = fields else {
        return Err(Error::new(input.span(), "only structs with named fields can be replicated"));
    };
    let said = Attributes::parse(&input.attrs, ON_STRUCT)?;
    let name = kind_name(input, &said)?;
    let max_speed = said.value("max_speed")?.map_or_else(|| quote!(0.0), |value| quote!(#value));
    let fall = said.value("fall")?.map_or_else(|| quote!(0), |value| quote!(#value));
    let mut specs = Vec::new();
    for field in &fields.named {
        specs.push(field_spec(field)?);
    }
    let idents: Vec<_> = fields.named.iter().map(|field| &field.ident).collect();
    let types: Vec<_> = fields.named.iter().map(|field| &field.ty).collect();
    let at: Vec<usize> = (0..idents.len()).collect();
    let (ident, wire) = (&input.ident, wire());
    Ok(quote! {
        impl #wire::Replicate for #ident {
            const NAME: &'static str = #name;

            fn spec() -> #wire::KindSpec {
                #wire::KindSpec {
                    name: #name.into(),
                    fields: vec![#(#specs),*],
                    max_speed: #max_speed,
                    fall: #fall,
                }
            }

            fn put(&self, kind: &#wire::Kind, lanes: &mut [i32]) {
                #( <#types as #wire::Field>::put(
                    &self.#idents,
                    &kind.spec.fields[#at].ty,
                    #wire::field_lanes_mut(kind, #at, lanes),
                ); )*
            }

            fn get(kind: &#wire::Kind, lanes: &[i32]) -> Self {
                Self { #( #idents: <#types as #wire::Field>::get(
                    &kind.spec.fields[#at].ty,
                    #wire::field_lanes(kind, #at, lanes),
                ), )* }
            }
        }
    })
}

fn kind_name(input: &DeriveInput, said: &Attributes) -> Result<LitStr, Error> {
    match said.value("name")? {
        Some(Expr::Lit(literal)) => match &literal.lit {
            Lit::Str(name) => Ok(name.clone()),
            other => Err(Error::new(other.span(), "expected a string")),
        },
        Some(other) => Err(Error::new(other.span(), "expected a string")),
        None => Ok(LitStr::new(&snake(&input.ident.to_string()), input.ident.span())),
    }
}

fn field_spec(field: &Field) -> Result<Tokens, Error> {
    let said = Attributes::parse(&field.attrs, ON_FIELD)?;
    let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let (wire, ty) = (wire(), &field.ty);
    let mut changes = Vec::new();
    for (attribute, part) in [
        ("precision", "precision"),
        ("extent", "extent"),
        ("min", "min"),
        ("max", "max"),
        ("bits", "bits"),
        ("steps", "steps"),
        ("max_len", "max"),
    ] {
        if let Some(value) = said.value(attribute)? {
            let part = Ident::new(part, value.span());
            changes.push(quote! { set.#part = Some(#value as f64); });
        }
    }
    let (motion, own) = (said.has("motion"), said.has("own"));
    let angle = said.has("angle") || said.has("yaw") || said.has("pitch");
    let role = match (said.has("place"), said.has("yaw"), said.has("pitch")) {
        (true, false, false) => quote!(Place),
        (false, true, false) => quote!(Yaw),
        (false, false, true) => quote!(Pitch),
        (false, false, false) => quote!(Plain),
        _ => return Err(Error::new(field.span(), "a field has one role: place, yaw or pitch")),
    };
    let needs = |attribute: &str, fits: bool, what: &str| match said.has(attribute) && !fits {
        true => Err(Error::new(field.span(), format!("{attribute} is for {what} only"))),
        false => Ok(()),
    };
    needs("steps", angle, "yaw, pitch or angle")?;
    needs("motion", said.has("place"), "a place")?;
    if said.has("bits") && said.has("precision") {
        return Err(Error::new(field.span(), "bits and precision exclude each other"));
    }
    if own && role.to_string() != "Plain" {
        return Err(Error::new(field.span(), "a place or a facing is sent to all observers"));
    }
    let to_rivals = match (said.has("team"), said.value("coarse")?) {
        (true, Some(coarse)) => {
            return Err(Error::new(coarse.span(), "team and coarse exclude each other"));
        }
        (true, None) => quote!(Hidden),
        (false, Some(coarse)) => quote!(Coarse((#coarse) as f32)),
        (false, None) => quote!(Exact),
    };
    let floor = match (said.value("floor")?, said.value("floor_degrees")?) {
        (Some(_), Some(degrees)) => {
            return Err(Error::new(degrees.span(), "floor and floor_degrees exclude each other"));
        }
        (Some(floor), None) => quote!((#floor) as f32),
        (None, Some(degrees)) => quote!(((#degrees) as f32).to_radians()),
        // From afar a facing within 15° looks the same; views tighten this for near objects.
        (None, None) if said.has("yaw") || said.has("pitch") => quote!(15f32.to_radians()),
        (None, None) => quote!(0.0),
    };
    Ok(quote! {{
        let mut set = #wire::derive::KindSettings { motion: #motion, angle: #angle, ..Default::default() };
        #(#changes)*
        let ty = #wire::derive::field_type(<#ty as #wire::Field>::field_type(), &set);
        let spec = #wire::FieldSpec::new(#name, ty).role(#wire::Role::#role).floor(#floor);
        spec.own(#own).to_rivals(#wire::Disclosure::#to_rivals)
    }})
}

fn symbol(input: &DeriveInput, data: &syn::DataEnum) -> Result<Tokens, Error> {
    if let Some(variant) = data.variants.iter().find(|v| !matches!(v.fields, Fields::Unit)) {
        return Err(Error::new(variant.span(), "only enums without data can be replicated"));
    }
    if data.variants.len() < 2 {
        return Err(Error::new(input.span(), "an enum of one value has nothing to replicate"));
    }
    let (ident, wire, count) = (&input.ident, wire(), data.variants.len() as u32);
    let names: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let at: Vec<i32> = (0..count as i32).collect();
    let first = names[0];
    Ok(quote! {
        impl #wire::Field for #ident {
            fn field_type() -> #wire::FieldType {
                #wire::FieldType::Symbol { count: #count }
            }

            fn put(&self, _: &#wire::FieldType, lanes: &mut [i32]) {
                lanes[0] = match self { #( Self::#names => #at, )* };
            }

            fn get(_: &#wire::FieldType, lanes: &[i32]) -> Self {
                match lanes[0] { #( #at => Self::#names, )* _ => Self::#first }
            }
        }
    })
}

/// The path of the wire crate in user code: the façade re-exports everything that the macro needs.
fn wire() -> Tokens {
    const OURS: [&str; 6] = ["wire", "sync", "node", "lab", "arena", "cli"];
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    if package.strip_prefix("foveate-").is_some_and(|rest| OURS.contains(&rest)) {
        quote!(::foveate_wire)
    } else {
        quote!(::foveate::wire)
    }
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
