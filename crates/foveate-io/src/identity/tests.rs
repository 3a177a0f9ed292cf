use super::*;

fn at(days: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs((20_000 + days) * DAY)
}

#[test]
fn a_development_certificate_is_due_before_it_ends() {
    let identity = Identity::obtain(&Certificate::development(), at(0)).expect("made");
    assert!(!identity.is_due(at(0)));
    assert!(!identity.is_due(at(9)));
    assert!(identity.is_due(at(10)));
    assert!(VALID_FOR < Duration::from_secs(14 * DAY), "browsers refuse 14 days");
}

#[test]
fn each_development_certificate_has_a_hash_of_its_own() {
    let one = Identity::obtain(&Certificate::development(), at(0)).expect("made");
    let two = Identity::obtain(&Certificate::development(), at(0)).expect("made");
    assert_ne!(one.hash(), two.hash());
    assert_eq!(one.hash().to_string().len(), 64);
}

/// A temporary file, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Scratch {
        let file = std::env::temp_dir().join(format!("foveate-io-{}-{name}", std::process::id()));
        std::fs::write(&file, text).expect("temporary folder is writable");
        Scratch(file)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The folder is temporary anyway.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `bytes` as a PEM block.
fn pem(heading: &str, bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {heading}-----\n");
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let value = word >> (18 - 6 * digit) & 63;
            text.push(if digit <= chunk.len() { DIGITS[value as usize] as char } else { '=' });
        }
    }
    text + &format!("\n-----END {heading}-----\n")
}

fn files(chain: &Scratch, key: &Scratch) -> Certificate {
    Certificate::Files { chain: chain.0.clone(), key: key.0.clone() }
}

#[test]
fn certificate_and_key_are_read_from_pem_files() {
    let made = Identity::obtain(&Certificate::development(), at(0)).expect("made");
    let chain = Scratch::new("good.pem", &pem("CERTIFICATE", &made.chain[0]));
    let key = Scratch::new("good.key", &pem("PRIVATE KEY", made.key.secret_der()));
    let read = Identity::obtain(&files(&chain, &key), at(0)).expect("read");
    assert_eq!(read.hash(), made.hash());
    assert!(!read.is_due(at(1_000)), "files are renewed by the tool that made them");
}

#[test]
fn errors_in_a_file_are_reported_with_its_name() {
    let one = Identity::obtain(&Certificate::development(), at(0)).expect("made");
    let two = Identity::obtain(&Certificate::development(), at(0)).expect("made");
    let chain = Scratch::new("bad.pem", &pem("CERTIFICATE", &one.chain[0]));
    let key = Scratch::new("other.key", &pem("PRIVATE KEY", two.key.secret_der()));
    let empty = Scratch::new("empty.pem", "nothing here\n");
    let gone = Scratch(PathBuf::from("no/such/file.pem"));
    for (certificate, name, expected) in [
        (files(&empty, &key), "empty.pem", "expected one or more certificates in PEM, found none"),
        (files(&gone, &key), "no/such/file.pem", "expected one or more certificates in PEM"),
        (files(&chain, &empty), "empty.pem", "expected a private key in PEM"),
        (files(&chain, &key), "other.key", "does not fit"),
    ] {
        let said = Identity::obtain(&certificate, at(0)).err().expect("refused").to_string();
        assert!(said.contains(name) && said.contains(expected), "{said}");
    }
}

#[test]
fn a_hash_is_read_back_from_its_text() {
    let hash = CertificateHash(std::array::from_fn(|at| at as u8 * 8 + 3));
    assert_eq!(hash.to_string().parse(), Ok(hash));
    assert_eq!("03".parse::<CertificateHash>(), Err(CertificateHashError));
    assert_eq!("+1".repeat(32).parse::<CertificateHash>(), Err(CertificateHashError));
    assert_eq!("é".repeat(32).parse::<CertificateHash>(), Err(CertificateHashError));
}
