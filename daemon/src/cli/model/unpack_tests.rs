use super::*;

fn model(files: &[(&str, &[u8])]) -> Published {
    let files = files.iter().map(|(name, bytes)| PublishedFile {
        name: (*name).to_owned(),
        size: bytes.len() as u64,
        sha256: hex(&Sha256::digest(bytes)),
    });
    Published { files: files.collect(), ..Published::all().remove(0) }
}

fn zip(place: &Path, entries: &[(&str, &[u8])]) {
    let mut archive = zip::ZipWriter::new(File::create(place).unwrap());
    for (name, bytes) in entries {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn archive_entries_are_matched_by_name_and_content() {
    let folder = tempfile::tempdir().unwrap();
    let (place, into) = (folder.path().join("a.zip"), folder.path().join("into"));
    let wanted = model(&[("config.json", b"right"), ("1_Pooling/config.json", b"other")]);
    zip(
        &place,
        &[
            ("x/config.json", b"wrong"),
            ("x/myconfig.json", b"right"),
            ("/abs/../config.json", b"right"),
            ("x/1_Pooling/config.json", b"other"),
        ],
    );
    unpack(&place, &wanted, &into).unwrap();
    assert_eq!(fs::read(into.join("config.json")).unwrap(), b"right");
    assert_eq!(fs::read(into.join("1_Pooling/config.json")).unwrap(), b"other");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is written elsewhere");
}

#[test]
fn an_entry_larger_than_the_published_file_is_not_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let (place, into) = (folder.path().join("bomb.zip"), folder.path().join("into"));
    let zeros = vec![0; 50 << 20];
    zip(&place, &[("config.json", &zeros)]);
    assert!(fs::metadata(&place).unwrap().len() < 1 << 20);
    let found = unpack(&place, &model(&[("config.json", b"right")]), &into);
    assert!(matches!(found, Err(UnpackError::Lacks { .. })));
    assert!(!into.exists());
}

#[test]
fn a_symlink_in_a_tar_does_not_count_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (place, into) = (folder.path().join("a.tar"), folder.path().join("into"));
    let mut archive = tar::Builder::new(File::create(&place).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    archive.append_link(&mut header, "config.json", "/etc/passwd").unwrap();
    archive.finish().unwrap();
    drop(archive);
    let found = unpack(&place, &model(&[("config.json", b"right")]), &into);
    assert!(matches!(found, Err(UnpackError::Lacks { .. })));
}
