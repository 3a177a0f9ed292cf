//! General-purpose compression of packets, as the source tried it: run lengths, and Huffman with the table in the
//! packet. For comparison only: ours sends no table.
//!
//! The source names neither algorithm. Run lengths here: a byte that occurs twice is followed by the number of further
//! ones. Huffman: the length, the symbols with their counts (3 B each), the codes.

/// The longest input that the counts of the Huffman table can hold.
const LONGEST: usize = u16::MAX as usize;

/// The algorithm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Squeeze {
    RunLengths,
    Huffman,
}

impl Squeeze {
    /// The compressed bytes; `None` if the input is too long for the format.
    pub fn press(self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self {
            Squeeze::RunLengths => Some(press_runs(bytes)),
            Squeeze::Huffman => press_huffman(bytes),
        }
    }

    /// The original bytes; `None` for invalid input.
    pub fn expand(self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self {
            Squeeze::RunLengths => expand_runs(bytes),
            Squeeze::Huffman => expand_huffman(bytes),
        }
    }
}

fn press_runs(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(&first) = rest.first() {
        let run = rest.iter().take_while(|byte| **byte == first).count().min(2 + 255);
        out.extend(std::iter::repeat_n(first, run.min(2)));
        if run >= 2 {
            out.push((run - 2) as u8);
        }
        rest = &rest[run..];
    }
    out
}

fn expand_runs(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        out.push(*first);
        rest = tail;
        if let [second, tail @ ..] = rest
            && second == first
        {
            let (more, tail) = tail.split_first()?;
            out.extend(std::iter::repeat_n(*first, 1 + usize::from(*more)));
            rest = tail;
        }
    }
    Some(out)
}

/// A symbol with its code: the lowest `length` bits of `code`.
#[derive(Clone, Copy, Default)]
struct Code {
    code: u32,
    length: u32,
}

/// Canonical codes from counts, the same at both ends.
fn codes(counts: &[u16; 256]) -> [Code; 256] {
    let mut lengths = [0u32; 256];
    // For each tree its count, its least symbol (which breaks ties), and its symbols.
    let mut trees: Vec<(u32, u8, Vec<u8>)> = (0..=255u8)
        .filter(|symbol| counts[usize::from(*symbol)] > 0)
        .map(|symbol| (u32::from(counts[usize::from(symbol)]), symbol, vec![symbol]))
        .collect();
    if let [(_, only, _)] = trees[..] {
        lengths[usize::from(only)] = 1;
    }
    while trees.len() > 1 {
        trees.sort_by_key(|(count, least, _)| std::cmp::Reverse((*count, *least)));
        if let (Some((a, least_a, mut left)), Some((b, least_b, right))) =
            (trees.pop(), trees.pop())
        {
            left.extend(right);
            left.iter().for_each(|symbol| lengths[usize::from(*symbol)] += 1);
            trees.push((a + b, least_a.min(least_b), left));
        }
    }
    let mut order: Vec<usize> = (0..256).filter(|symbol| lengths[*symbol] > 0).collect();
    order.sort_by_key(|symbol| (lengths[*symbol], *symbol));
    let mut all = [Code::default(); 256];
    let (mut code, mut before) = (0u32, 0);
    for symbol in order {
        // With counts of 16 bits, every code is shorter than 25 bits.
        code <<= lengths[symbol] - before;
        before = lengths[symbol];
        all[symbol] = Code { code, length: before };
        code += 1;
    }
    all
}

fn press_huffman(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() > LONGEST {
        return None;
    }
    let mut counts = [0u16; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let codes = codes(&counts);
    let mut out = (bytes.len() as u16).to_be_bytes().to_vec();
    out.push(counts.iter().filter(|count| **count > 0).count() as u8);
    for (symbol, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        out.push(symbol as u8);
        out.extend(count.to_be_bytes());
    }
    let (mut held, mut bits) = (0u64, 0);
    for byte in bytes {
        let Code { code, length } = codes[usize::from(*byte)];
        (held, bits) = (held << length | u64::from(code), bits + length);
        while bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
        }
    }
    if bits > 0 {
        out.push((held << (8 - bits)) as u8);
    }
    Some(out)
}

fn expand_huffman(bytes: &[u8]) -> Option<Vec<u8>> {
    let [high, low, symbols, rest @ ..] = bytes else { return None };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    // 256 symbols are written as zero.
    let symbols = if *symbols == 0 && length > 0 { 256 } else { usize::from(*symbols) };
    let (table, coded) = rest.split_at_checked(3 * symbols)?;
    let mut counts = [0u16; 256];
    for entry in table.chunks_exact(3) {
        counts[usize::from(entry[0])] = u16::from_be_bytes([entry[1], entry[2]]);
    }
    let codes = codes(&counts);
    let mut bits = coded.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let mut out = Vec::with_capacity(length);
    while out.len() < length {
        let mut read = Code::default();
        loop {
            read = Code { code: read.code << 1 | u32::from(bits.next()?), length: read.length + 1 };
            let is = |code: &Code| code.length == read.length && code.code == read.code;
            if let Some(symbol) = codes.iter().position(is) {
                out.push(symbol as u8);
                break;
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn expanding_gives_back_what_was_pressed(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..600),
                proptest::collection::vec(0u8..3, 0..900),
            ]
        ) {
            for squeeze in [Squeeze::RunLengths, Squeeze::Huffman] {
                let pressed = squeeze.press(&bytes);
                let back = pressed.and_then(|pressed| squeeze.expand(&pressed));
                prop_assert_eq!(back.as_deref(), Some(&bytes[..]));
            }
        }

        #[test]
        fn anything_may_be_expanded_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            Squeeze::RunLengths.expand(&bytes);
            Squeeze::Huffman.expand(&bytes);
        }
    }

    #[test]
    fn huffman_enlarges_small_packets_and_run_lengths_shrink_runs() {
        let text = b"unit_017 walks";
        let huffman = Squeeze::Huffman.press(text).map(|pressed| pressed.len());
        assert!(huffman > Some(text.len()), "the table is larger than the text");
        assert_eq!(Squeeze::RunLengths.press(&[7; 100]).map(|pressed| pressed.len()), Some(3));
        assert_eq!(Squeeze::Huffman.press(&vec![0; LONGEST + 1]), None);
    }
}
