//! The token formats of providers, as a table.
//!
//! Each rule has literals, which the prefilter finds in one pass, and a pattern that must match from there. Source:
//! the providers' public descriptions of their token formats.
//!
//! The scan is linear because a pattern fails within a bounded number of bytes. Patterns that may read further before
//! they fail are marked [`Start::OncePerRun`].

/// The format of one kind of secret.
pub(super) struct Rule {
    /// The name in the replacement: `[redacted:KIND]`.
    pub kind: &'static str,
    /// Every secret of this kind contains one of these, at its beginning or after `lead`.
    pub literals: &'static [&'static str],
    /// The whole secret, from its first character.
    pub pattern: &'static str,
    /// The part of the secret before the literal.
    pub lead: Lead,
    /// Where the secret may begin.
    pub start: Start,
}

/// Where a secret may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Even directly after a letter, `_` or `-`, because the literal is distinctive.
    Anywhere,
    /// Not after a letter or digit, because the literal is short or the end of a word. Exception: the following text
    /// mixes capitals, lower-case letters and digits randomly.
    Word,
    /// Like [`Self::Word`], and only if the following text mixes capitals, lower-case letters and digits randomly,
    /// because the literal may also begin a name.
    Drawn,
    /// Anywhere, but only the first literal in a run of token characters is tried.
    OncePerRun,
}

/// The characters of a secret before its literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// None: the secret begins with the literal.
    Nothing,
    /// Digits, at most sixteen.
    Digits,
    /// This many letters and digits.
    Alphanumerics(usize),
}

const fn rule(kind: &'static str, literals: &'static [&'static str], pattern: &'static str) -> Rule {
    Rule { kind, literals, pattern, lead: Lead::Nothing, start: Start::Anywhere }
}

const fn word(kind: &'static str, literals: &'static [&'static str], pattern: &'static str) -> Rule {
    Rule { kind, literals, pattern, lead: Lead::Nothing, start: Start::Word }
}

const fn drawn(kind: &'static str, literals: &'static [&'static str], pattern: &'static str) -> Rule {
    Rule { kind, literals, pattern, lead: Lead::Nothing, start: Start::Drawn }
}

/// All rules. `\b` is the ASCII word boundary here, because the scanner switches Unicode off.
pub(super) const RULES: &[Rule] = &[
    // Code hosting and packages.
    rule("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"gh[pousr]_[A-Za-z0-9]{36,}"),
    rule("github-token", &["github_pat_"], r"github_pat_[A-Za-z0-9_]{22,}"),
    rule(
        "gitlab-token",
        &[
            "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-",
            "glsoat-", "glrtr-", "glffct-", "glwt-",
        ],
        r"gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]{2,}){0,2}",
    ),
    rule("gitlab-token", &["GR1348941"], r"GR1348941[A-Za-z0-9_-]{20,}"),
    rule("bitbucket-token", &["ATBB", "ATCTT3"], r"(?:ATBB[A-Za-z0-9]{28,}|ATCTT3[A-Za-z0-9_=-]{60,})"),
    rule("atlassian-token", &["ATATT3"], r"ATATT3[A-Za-z0-9_=-]{60,}"),
    word("npm-token", &["npm_"], r"npm_[A-Za-z0-9]{36}\b"),
    rule("pypi-token", &["pypi-AgE"], r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    rule("rubygems-token", &["rubygems_"], r"rubygems_[a-f0-9]{48}\b"),
    word("crates-io-token", &["cio"], r"cio[A-Za-z0-9]{32}\b"),
    rule("clojars-token", &["CLOJARS_"], r"CLOJARS_[a-z0-9]{60}\b"),
    rule("docker-token", &["dckr_pat_", "dckr_oat_"], r"dckr_[po]at_[A-Za-z0-9_-]{27,}"),
    word("artifactory-token", &["AKCp"], r"AKCp[A-Za-z0-9]{60,}"),
    rule("artifactory-token", &["cmVmdGtu"], r"cmVmdGtu[A-Za-z0-9]{50,}"),
    rule("circleci-token", &["CCIPAT_", "CCIPRJ_"], r"CCIP(?:AT|RJ)_[A-Za-z0-9]{20,24}_[A-Fa-f0-9]{40}"),
    word("nuget-key", &["oy2"], r"oy2[a-z0-9]{43}\b"),
    rule("sourcegraph-token", &["sgp_"], r"sgp_(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}"),
    rule("posthog-key", &["phc_", "phx_"], r"ph[cx]_[A-Za-z0-9]{40,}"),
    // Clouds and infrastructure.
    rule("aws-access-key", &["AKIA", "ASIA", "ABIA", "ACCA"], r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}\b"),
    rule("aws-bedrock-key", &["ABSK"], r"ABSK[A-Za-z0-9+/]{90,}={0,2}"),
    rule("google-api-key", &["AIza"], r"AIza[A-Za-z0-9_-]{35}"),
    rule("google-api-key", &["AQ.Ab8"], r"AQ\.Ab8[A-Za-z0-9_-]{40,}"),
    rule("google-oauth-secret", &["GOCSPX-"], r"GOCSPX-[A-Za-z0-9_-]{28}"),
    rule("google-oauth-token", &["ya29."], r"ya29\.[A-Za-z0-9_-]{20,}"),
    word("google-oauth-token", &["1//0"], r"1//0[A-Za-z0-9_-]{40,}"),
    rule("azure-storage-key", &["AccountKey="], r"AccountKey=[A-Za-z0-9+/]{86}=="),
    Rule {
        kind: "azure-client-secret",
        literals: &["Q~"],
        pattern: r"[A-Za-z0-9]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,34}",
        lead: Lead::Alphanumerics(4),
        start: Start::Word,
    },
    word("azure-sas-signature", &["sig="], r"sig=[A-Za-z0-9%/+]{43,60}(?:%3[Dd]|=)"),
    word("alibaba-access-key", &["LTAI"], r"LTAI[A-Za-z0-9]{12,26}\b"),
    rule("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[a-f0-9]{64}\b"),
    rule("heroku-key", &["HRKU-"], r"HRKU-[A-Za-z0-9_-]{36,}"),
    word("fly-token", &["fo1_", "fm1a_", "fm1r_", "fm2_"], r"f(?:o1|m1[ar]|m2)_[A-Za-z0-9_+/=-]{40,}"),
    rule("netlify-token", &["nfp_"], r"nfp_[A-Za-z0-9]{36,}"),
    rule("vercel-token", &["vercel_blob_rw_"], r"vercel_blob_rw_[A-Za-z0-9_]{30,}"),
    word("vercel-token", &["vck_", "vcp_", "vci_", "vca_", "vcr_"], r"vc[kpiar]_[A-Za-z0-9]{48,}\b"),
    word("neon-key", &["napi_"], r"napi_[A-Za-z0-9]{60,}\b"),
    drawn("render-key", &["rnd_"], r"rnd_[A-Za-z0-9]{28,40}\b"),
    rule("scalingo-token", &["tk-us-"], r"tk-us-[A-Za-z0-9_-]{48}"),
    rule("openshift-token", &["sha256~"], r"sha256~[A-Za-z0-9_-]{43}"),
    rule("polar-token", &["polar_oat_", "polar_pat_"], r"polar_[op]at_[A-Za-z0-9_-]{32,}"),
    rule("inngest-key", &["signkey-"], r"signkey-(?:prod|test|branch)-[a-f0-9]{64}\b"),
    word(
        "trigger-key",
        &["tr_prod_", "tr_dev_", "tr_stg_", "tr_pat_"],
        r"tr_(?:prod|dev|stg|pat)_[A-Za-z0-9]{20,}\b",
    ),
    word("xata-key", &["xau_"], r"xau_[A-Za-z0-9]{40,}\b"),
    word("dbt-token", &["dbtc_", "dbtu_", "dbts_"], r"dbt[cus]_[A-Za-z0-9_-]{36,}"),
    word("clickhouse-key", &["4b1d"], r"4b1d[A-Za-z0-9]{38}\b"),
    rule("yandex-token", &["t1.9eu"], r"t1\.9eu[A-Za-z0-9_-]+={0,2}\.[A-Za-z0-9_-]{86}={0,2}"),
    rule("supabase-key", &["sbp_", "sb_secret_"], r"sb(?:p_[a-f0-9]{40}\b|_secret_[A-Za-z0-9_-]{20,})"),
    rule("planetscale-token", &["pscale_"], r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,}"),
    rule("databricks-token", &["dapi"], r"dapi[a-f0-9]{32}(?:-[0-9])?\b"),
    rule("tailscale-key", &["tskey-"], r"tskey-[a-z]+-[A-Za-z0-9]{8,}-[A-Za-z0-9]{16,}"),
    rule("pulumi-token", &["pul-"], r"pul-[a-f0-9]{40}\b"),
    rule("vault-token", &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    Rule {
        kind: "terraform-token",
        literals: &[".atlasv1."],
        pattern: r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}",
        lead: Lead::Alphanumerics(14),
        start: Start::Word,
    },
    rule("doppler-token", &["dp.pt.", "dp.st.", "dp.sa.", "dp.ct.", "dp.scim.", "dp.audit."], DOPPLER),
    rule("onepassword-token", &["ops_eyJ"], r"ops_eyJ[A-Za-z0-9+/=_-]{100,}"),
    rule("age-key", &["AGE-SECRET-KEY-1"], r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    rule("dynatrace-token", &["dt0c01.", "dt0s01."], r"dt0[cs]01\.[A-Z0-9]{24}\.[A-Z0-9]{64}\b"),
    rule("new-relic-key", &["NRAK-", "NRII-", "NRJS-", "NRSP-"], r"NR(?:AK|II|JS|SP)-[A-Za-z0-9_-]{19,}"),
    rule(
        "grafana-token",
        &["glsa_", "glc_"],
        r"gl(?:sa_[A-Za-z0-9]{32}_[a-f0-9]{8}\b|c_[A-Za-z0-9+/=]{32,})",
    ),
    rule("sentry-token", &["sntrys_", "sntryu_"], r"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    rule("buildkite-token", &["bkua_"], r"bkua_[a-f0-9]{40}\b"),
    word("prefect-token", &["pnu_"], r"pnu_[A-Za-z0-9]{36}\b"),
    rule("cloudflare-origin-key", &["v1.0-"], r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    rule("cloudflare-token", &["cfat_", "cfut_", "cfk_"], r"cf(?:at|ut|k)_[A-Za-z0-9_-]{40,}"),
    word("scaleway-key", &["SCW"], r"SCW[A-Z0-9]{17}\b"),
    rule("yandex-key", &["AQVN"], r"AQVN[A-Za-z0-9_-]{35,38}"),
    rule("defined-key", &["dnkey-"], r"dnkey-[a-z0-9=_-]{26}-[a-z0-9=_-]{52}"),
    word("kubernetes-token", &["K10"], r"K10[a-f0-9]{64}::(?:server|node):[a-f0-9]{32,}"),
    word("harness-key", &["pat.", "sat."], r"[ps]at\.[A-Za-z0-9_-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{20}\b"),
    word("infracost-key", &["ico-"], r"ico-[A-Za-z0-9]{32}\b"),
    word("octopus-key", &["API-"], r"API-[A-Z0-9]{26,32}\b"),
    word(
        "launchdarkly-key",
        &["sdk-", "api-", "mob-"],
        r"(?:sdk|api|mob)-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}\b",
    ),
    // Models.
    rule("anthropic-key", &["sk-ant-"], r"sk-ant-[A-Za-z0-9_-]{32,}"),
    rule("openrouter-key", &["sk-or-v1-"], r"sk-or-v1-[A-Fa-f0-9]{40,}"),
    rule(
        "openai-key",
        &["sk-proj-", "sk-svcacct-", "sk-admin-"],
        r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{32,}",
    ),
    word("openai-key", &["sk-"], r"sk-[A-Za-z0-9]{32,}\b"),
    word("huggingface-token", &["hf_", "api_org_"], r"(?:hf_|api_org_)[A-Za-z0-9]{34}\b"),
    rule("groq-key", &["gsk_"], r"gsk_[A-Za-z0-9]{40,}"),
    word("xai-key", &["xai-"], r"xai-[A-Za-z0-9]{64,}"),
    rule("perplexity-key", &["pplx-"], r"pplx-[A-Za-z0-9]{40,}"),
    word("replicate-token", &["r8_"], r"r8_[A-Za-z0-9]{37}\b"),
    rule("nvidia-key", &["nvapi-"], r"nvapi-[A-Za-z0-9_-]{60,}"),
    rule("tavily-key", &["tvly-"], r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{28,}"),
    rule("langsmith-key", &["lsv2_"], r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}\b"),
    rule("langfuse-key", &["sk-lf-"], r"sk-lf-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}\b"),
    rule("context7-key", &["ctx7sk-"], r"ctx7sk-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}\b"),
    drawn("mem0-key", &["m0-"], r"m0-[A-Za-z0-9]{40}\b"),
    drawn("byterover-key", &["brv_"], r"brv_[A-Za-z0-9_-]{40,}"),
    rule("retaindb-key", &["retaindb_"], r"retaindb_[A-Za-z0-9]{32}\b"),
    drawn("supermemory-key", &["sm_"], r"sm_[A-Za-z0-9]{22}_[A-Za-z0-9_-]{50,}"),
    drawn("fireworks-key", &["fw_"], r"fw_[A-Za-z0-9]{22,32}\b"),
    word("cerebras-key", &["csk-"], r"csk-[a-z0-9]{48}\b"),
    word("firecrawl-key", &["fc-"], r"fc-[a-f0-9]{32}\b"),
    word("elevenlabs-key", &["sk_"], r"sk_[a-f0-9]{48}\b"),
    word("cursor-key", &["key_"], r"key_[a-f0-9]{64}\b"),
    drawn("voyage-key", &["pa-"], r"pa-[A-Za-z0-9_-]{43,}"),
    drawn("jina-key", &["jina_"], r"jina_[A-Za-z0-9_-]{60,}"),
    rule("together-key", &["tgp_v1_"], r"tgp_v1_[A-Za-z0-9_-]{43,}"),
    word("e2b-key", &["e2b_", "sk_e2b_"], r"(?:sk_)?e2b_[a-f0-9]{40}\b"),
    word("pinecone-key", &["pcsk_"], r"pcsk_[A-Za-z0-9]{5,8}_[A-Za-z0-9]{60,}\b"),
    rule("apify-token", &["apify_api_", "apify_proxy_"], r"apify_(?:api|proxy)_[A-Za-z0-9]{34,}\b"),
    drawn("browserbase-key", &["bb_live_", "bb_test_"], r"bb_(?:live|test)_[A-Za-z0-9_-]{20,}"),
    drawn("nomic-key", &["nk-"], r"nk-[A-Za-z0-9_-]{43,}"),
    rule("helicone-key", &["sk-helicone-"], r"sk-helicone-[A-Za-z0-9-]{20,}"),
    rule("zuplo-key", &["zpka_"], r"zpka_[A-Za-z0-9_-]{32,}"),
    drawn("unkey-key", &["unkey_"], r"unkey_[A-Za-z0-9]{20,}\b"),
    drawn("modal-token", &["ak-", "as-"], r"a[ks]-[A-Za-z0-9]{22}\b"),
    rule("letta-key", &["sk-let-"], r"sk-let-[A-Za-z0-9=+/]{40,}"),
    rule("wandb-key", &["wandb_v1_"], r"wandb_v1_[A-Za-z0-9_-]{40,}"),
    // Payment and commerce.
    rule(
        "stripe-key",
        &["sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"],
        r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}",
    ),
    rule("stripe-webhook-secret", &["whsec_"], r"whsec_[A-Za-z0-9+/=]{32,}"),
    rule("square-token", &["sq0atp-", "sq0csp-"], r"sq0(?:atp-[A-Za-z0-9_-]{22,}|csp-[A-Za-z0-9_-]{40,})"),
    rule("shopify-token", &["shpat_", "shpca_", "shppa_", "shpss_"], r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}\b"),
    rule("shippo-token", &["shippo_"], r"shippo_(?:live|test)_[a-f0-9]{40}\b"),
    word("easypost-key", &["EZAK", "EZTK"], r"EZ[AT]K[A-Za-z0-9]{54}\b"),
    rule("duffel-token", &["duffel_"], r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    rule("plaid-token", &["access-sandbox-", "access-production-"], PLAID),
    rule("square-token", &["EAAA"], r"EAAA[A-Za-z0-9_-]{56,64}"),
    rule("flutterwave-key", &["FLWSECK"], r"FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?"),
    rule("razorpay-key", &["rzp_live_", "rzp_test_"], r"rzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    rule(
        "braintree-token",
        &["access_token$"],
        r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}",
    ),
    rule("facebook-token", &["EAACEdEose0cBA", "EAAM", "EAAC"], r"EAA[MC][A-Za-z0-9]{80,}"),
    // Messages and mail.
    rule(
        "slack-token",
        &["xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxc-", "xoxd-"],
        SLACK,
    ),
    rule("slack-token", &["xapp-", "xoxe."], r"x(?:app-[0-9]-|oxe\.xox[bp]-[0-9]-)[A-Za-z0-9-]{20,}"),
    rule(
        "slack-webhook",
        &["hooks.slack.com/"],
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{30,}",
    ),
    rule(
        "discord-webhook",
        &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        r"discord(?:app)?\.com/api/webhooks/[0-9]{8,}/[A-Za-z0-9_-]{50,}",
    ),
    Rule {
        kind: "telegram-token",
        literals: &[":AA"],
        pattern: r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}",
        lead: Lead::Digits,
        start: Start::Anywhere,
    },
    word("sendgrid-key", &["SG."], r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    rule("mailgun-key", &["key-"], r"key-[a-f0-9]{32}\b"),
    rule("brevo-key", &["xkeysib-"], r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    rule("twilio-key", &["SK"], r"SK[a-f0-9]{32}\b"),
    rule("mapbox-token", &["sk.eyJ", "tk.eyJ"], r"[st]k\.eyJ[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,}"),
    rule(
        "teams-webhook",
        &[".webhook.office.com/"],
        r"\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/_-]{60,}",
    ),
    rule("brevo-key", &["xsmtpsib-"], r"xsmtpsib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    word("resend-key", &["re_"], r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    // Tools.
    rule("linear-key", &["lin_api_", "lin_oauth_"], r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    rule("notion-token", &["ntn_", "secret_"], r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})\b"),
    rule("figma-token", &["figd_"], r"figd_[A-Za-z0-9_-]{38,}"),
    rule("postman-key", &["PMAK-"], r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    rule("contentful-token", &["CFPAT-"], r"CFPAT-[A-Za-z0-9_-]{43}"),
    rule("typeform-token", &["tfp_"], r"tfp_[A-Za-z0-9_.=-]{40,}"),
    rule("readme-key", &["rdme_"], r"rdme_[a-z0-9]{60,}"),
    word("airtable-token", &["pat"], r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),
    rule("adobe-secret", &["p8e-"], r"p8e-[A-Za-z0-9_-]{32}"),
    word("dropbox-token", &["sl."], r"sl\.(?:u\.)?[A-Za-z0-9_-]{130,}"),
    rule("frameio-token", &["fio-u-"], r"fio-u-[A-Za-z0-9_=-]{64}"),
    rule(
        "hubspot-token",
        &["pat-na1-", "pat-eu1-"],
        r"pat-(?:na|eu)1-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    ),
    rule("artifactory-token", &["jfrog_"], r"jfrog_[A-Za-z0-9]{40,}"),
    rule("snyk-token", &["snyk_"], r"snyk_(?:uat|sat)\.[A-Za-z0-9._-]{40,}"),
    rule("sonar-token", &["squ_", "sqp_", "sqa_"], r"sq[upa]_[a-f0-9]{40}\b"),
    rule("datadog-key", &["ddapp_"], r"ddapp_[A-Za-z0-9]{34}\b"),
    rule("elastic-key", &["essu_"], r"essu_[A-Za-z0-9+/=]{40,}"),
    rule("zapier-key", &["sk-ak-"], r"sk-ak-[A-Za-z0-9]{20,}"),
    word("cal-key", &["cal_live_"], r"cal_live_[a-f0-9]{32}\b"),
    rule("settlemint-token", &["sm_aat_", "sm_pat_", "sm_sat_"], r"sm_[aps]at_[A-Za-z0-9]{16}\b"),
    rule("intra-secret", &["s-s4t2"], r"s-s4t2(?:ud|af)-[a-f0-9]{64}\b"),
    rule("grafana-token", &["eyJrIjoi"], r"eyJrIjoi[A-Za-z0-9]{70,400}={0,2}"),
    word("clickup-token", &["pk_"], r"pk_[0-9]{6,10}_[A-Z0-9]{32}\b"),
    rule("ubidots-key", &["BBFF-"], r"BBFF-[A-Za-z0-9]{30}\b"),
    // Standards.
    rule(
        "password-hash",
        &["$6$", "$5$", "$y$", "$apr1$", "$2a$", "$2b$", "$2y$"],
        r"\$(?:[56]\$(?:rounds=[0-9]{1,9}\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{43,86}|y\$[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{1,86}\$[A-Za-z0-9./]{43}|apr1\$[A-Za-z0-9./]{1,8}\$[A-Za-z0-9./]{22}|2[aby]\$[0-9]{2}\$[A-Za-z0-9./]{53})",
    ),
    // A private key in base64, as in kubeconfig files. The text after `BEGIN ` is the kind of key.
    rule(
        "private-key",
        &[
            "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS",
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS",
            "LS0tLS1CRUdJTiBFQyBQUklWQVRF",
            "LS0tLS1CRUdJTiBEU0EgUFJJVkFURS",
            "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUg",
            "LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFUR",
        ],
        r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{40,}={0,2}",
    ),
    Rule { kind: "jwt", literals: &["eyJ"], pattern: JWT, lead: Lead::Nothing, start: Start::OncePerRun },
];

/// A JSON Web Token: signed, with header and claims in JSON, or encrypted, in five parts.
const JWT: &str = r"eyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})";
const SLACK: &str = r"xox[abceoprsd]-[A-Za-z0-9%/+=-]{20,}";
const DOPPLER: &str = r"dp\.(?:pt|ct|scim|audit|st|sa)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}\b";
const PLAID: &str = r"access-(?:sandbox|production)-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}\b";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_pattern_compiles_and_does_not_match_an_empty_text() {
        for rule in RULES {
            let pattern = regex::Regex::new(rule.pattern).unwrap();
            assert!(!pattern.is_match(""), "{}", rule.kind);
            assert!(rule.literals.iter().all(|literal| !literal.is_empty()), "{}", rule.kind);
        }
    }

    #[test]
    fn the_rules_cover_at_least_forty_kinds_of_secrets_with_valid_names() {
        let mut kinds: Vec<_> = RULES.iter().map(|rule| rule.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert!(kinds.len() >= 40, "{}", kinds.len());
        assert!(kinds.iter().all(|kind| {
            kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        }));
    }
}
