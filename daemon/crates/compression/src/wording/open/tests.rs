use super::*;

#[test]
fn headings_of_open_work_are_recognized() {
    for line in [
        "Next steps",
        "Next Steps:",
        "Recommended next steps",
        "Next steps for the exporter",
        "What's next?",
        "Still to do",
        "Still open:",
        "To-do",
        "TODO",
        "TODOs",
        "Remaining",
        "Remaining work",
        "What remains",
        "What’s left",
        "Left for later",
        "Follow-ups",
        "Suggested follow-up work",
        "Open",
        "Open questions",
        "Open items for you",
        "Not done yet",
        "Not implemented",
        "Deferred",
        "Pending tasks",
        "Before you merge",
        "Nächste Schritte",
        "Noch offen",
        "Offene Punkte",
        "Was noch fehlt",
        "Prochaines étapes",
        "Reste à faire",
        "À faire",
        "Próximos pasos",
        "Pendiente",
        "Lo que falta",
        "次のステップ",
        "残作業",
        "下一步",
        "待办事项",
        "다음 단계",
        "남은 작업",
    ] {
        assert!(names_what_is_left(line), "{line}");
    }
}

#[test]
fn other_headings_are_not_taken_for_open_work() {
    for line in [
        "Open the file",
        "Next.js routing",
        "Todo app",
        "Remaining capacity",
        "Deferred loading of images",
        "Follow-up fixes",
        "Unfinished uploads",
        "Summary",
        "What changed",
        "Left join",
        "Done",
        "Nächtliche Sicherung",
        "Pendientes de la curva",
        "今日の変更",
        "修改内容",
        "변경 사항",
        "",
    ] {
        assert!(!names_what_is_left(line), "{line}");
    }
    assert!(
        names_what_is_done("Done") && names_what_is_done("已完成") && !names_what_is_done("Done by Anna")
    );
}

#[test]
fn sentences_about_open_work_are_recognized() {
    for text in [
        "Next steps: migrate the old bookings.",
        "TODO: round refunds as well",
        "Remaining — the importer",
        "The old bookings are not migrated yet.",
        "The docs haven't been updated yet.",
        "Note that the docs are not updated yet.",
        "We still need to migrate the old bookings.",
        "The exporter still needs its own test.",
        "I have not touched the importer.",
        "I haven't run it against Postgres.",
        "The importer is left for later.",
        "I left the importer for a follow-up.",
        "That can be done later.",
        "Two screens are still missing.",
        "The importer remains to be ported.",
        "The commit is not pushed.",
        "What's left is the importer.",
        "All that remains is the importer.",
        "You'll need to rotate the key.",
        "Die alten Buchungen müssen noch migriert werden.",
        "Der Import ist noch nicht umgestellt.",
        "Noch offen: der Import.",
        "Il reste à migrer les anciennes réservations.",
        "L'import n'est pas encore adapté.",
        "Queda por migrar las reservas antiguas.",
        "La importación todavía no está adaptada.",
        "古い予約の移行はまだ完了していません。",
        "インポートは未対応です。",
        "旧预订还没有迁移。",
        "仍需更新文档。",
        "이전 예약은 아직 이전하지 않았습니다.",
        "문서 작업이 남아 있습니다.",
    ] {
        assert!(is_left(text), "{text}");
    }
}

#[test]
fn finished_work_and_findings_are_not_open_work() {
    for text in [
        "The old bookings are migrated.",
        "The handler fails when the socket is not open yet.",
        "Rows that have not been read yet are skipped.",
        "The pool was not ready yet at that point, so the first call failed.",
        "I have not found another caller.",
        "Nothing is left to do.",
        "No follow-ups.",
        "There are no open questions.",
        "Should the docs be updated later?",
        "It is not a race, and yet it fails.",
        "Es ist nichts mehr offen.",
        "Il ne reste plus rien à faire.",
        "No queda nada pendiente.",
        "残作業はありません。",
        "没有剩下的工作。",
        "남은 작업은 없습니다.",
    ] {
        assert!(!is_left(text), "{text}");
    }
}

#[test]
fn checkboxes_and_table_cells_show_progress() {
    assert_eq!(ticked("[ ] migrate"), (Progress::Left, "migrate"));
    assert_eq!(ticked("[x] migrate"), (Progress::Done, "migrate"));
    assert_eq!(ticked("migrate"), (Progress::Unstated, "migrate"));
    assert!(is_open_row("Importer | not started") && is_open_row("Import | offen"));
    assert!(!is_open_row("Importer | done") && !is_open_row("Open files | 3"));
}
