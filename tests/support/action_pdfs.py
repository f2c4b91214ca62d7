"""PDFs that do more than being read, one for each place where an action can be, and honest ones that look like it."""

from tests.support.pdfs import JS, differences, document, hybrid, packed, stream, written

SCRIPT = "SECURITY_JAVASCRIPT_EMBEDDED"
PICTURE = "/Type/XObject/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray"

HIDDEN_SCRIPTS = {
    "on opening": document(f"/OpenAction {JS}"),
    "on closing": document(f"/AA<</WC {JS}>>"),
    "name tree": document(f"/Names<</JavaScript<</Names[(a){JS}]>>>>"),
    "name tree, three levels down": document(
        "/Names 5 0 R",
        objects={
            5: "<</JavaScript 6 0 R>>",
            6: "<</Kids[7 0 R]>>",
            7: "<</Kids[8 0 R]>>",
            8: f"<</Names[(a) {JS}]>>",
        },
    ),
    "page": document(page=f"/AA<</O {JS}>>"),
    "link": document(page=f"/Annots[<</Subtype/Link/Rect[0 0 9 9]/A {JS}>>]"),
    "annotation in an indirect array": document(
        page="/Annots 5 0 R", objects={5: "[6 0 R]", 6: f"<</Subtype/Widget/AA<</Fo {JS}>>>>"}
    ),
    "field that kids inherit from": document(
        "/AcroForm<</Fields[5 0 R]>>",
        objects={5: "<</T(a)/Kids[6 0 R]>>", 6: f"<</T(b)/FT/Tx/AA<</K {JS}>>/Kids[7 0 R]>>", 7: "<</T(c)>>"},
    ),
    "bookmark below a bookmark": document(
        "/Outlines 5 0 R",
        objects={
            5: "<</First 6 0 R/Last 6 0 R>>",
            6: "<</Title(a)/First 7 0 R/Last 7 0 R>>",
            7: f"<</Title(b)/A {JS}>>",
        },
    ),
    "after a harmless action": document(f"/OpenAction<</S/Named/N/NextPage/Next {JS}>>"),
    "second of an array, after an array": document(
        "/OpenAction 5 0 R",
        objects={5: "<</S/GoTo/D[3 0 R/Fit]/Next[6 0 R]>>", 6: f"<</S/Named/N/NextPage/Next[<</S/Hide/T(x)>>{JS}]>>"},
    ),
    "behind an embedded go-to": document(f"/OpenAction<</S/GoToE/T<</R/C/N(a.pdf)>>/D[0/Fit]/Next {JS}>>"),
    "rendition": document(page="/Annots[<</Subtype/Screen/A<</S/Rendition/OP 0/JS(x)>>>>]"),
    "rendition with a stream": document(
        page="/Annots[<</Subtype/Screen/A<</S/Rendition/JS 5 0 R>>>>]", objects={5: stream(b"app.alert(1)")}
    ),
    "kind of action given by reference": document(
        "/OpenAction<</S 5 0 R/JS 6 0 R>>", objects={5: "/JavaScript", 6: "(x)"}
    ),
    "script in a stream": document(
        "/OpenAction<</S/JavaScript/JS 5 0 R>>", objects={5: stream(b"app.alert(1)")}
    ),
    "names with escapes": document("/Open#41ction<</#53/J#61vaScr#69pt/J#53(x)>>"),
    "names with escapes in an object stream": packed(document("/Open#41ction<</#53/J#61vaScr#69pt/J#53(x)>>")),
    "everything in object streams": packed(
        document("/AcroForm<</Fields[5 0 R]>>", objects={5: f"<</T(a)/AA<</C {JS}>>>>"})
    ),
    "structure tree": document(
        "/StructTreeRoot<</Type/StructTreeRoot/K 5 0 R>>", objects={5: f"<</S/Link/K<</Type/OBJR/A {JS}>>>>"}
    ),
    "3D picture": document(
        page="/Annots[<</Subtype/3D/3DD 5 0 R>>]",
        objects={5: stream(b"", "/Type/3D/Subtype/U3D/OnInstantiate 6 0 R"), 6: stream(b"x()")},
    ),
    "object that old readers pass over": hybrid("/OpenAction 7 0 R", JS),
    "object that old readers passed over before an update": hybrid("/OpenAction 7 0 R", JS, updated=True),
    "trailer": written(
        {1: "<</Type/Catalog/Pages 2 0 R>>", 2: "<</Kids[3 0 R]/Count 1>>", 3: "<</Type/Page/Parent 2 0 R>>"},
        f"/X {JS}",
    ),
    "object that nothing refers to": document(objects={9: JS}),
    "link to a script": document(page="/Annots[<</Subtype/Link/A<</S/URI/URI(java\\nscript:alert\\(1\\))>>>>]"),
    "XFA stream": document(
        "/AcroForm<</XFA 5 0 R>>", objects={5: stream(b"<xdp><event><script>x()</script></event></xdp>")}
    ),
    "XFA cut in the middle of the word": document(
        "/AcroForm<</XFA[(a) 5 0 R(b) 6 0 R]>>", objects={5: stream(b"<a><scr"), 6: stream(b"ipt >x()</script></a>")}
    ),
    "XFA in UTF-16": document(
        "/AcroForm<</XFA 5 0 R>>", objects={5: stream("<a><x:script/></a>".encode("utf-16"))}
    ),
    "XFA that could hide it": document(
        "/AcroForm<</XFA 5 0 R>>", objects={5: stream(b'<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>')}
    ),
    "XFA as differences between rows": document(
        "/AcroForm<</XFA 5 0 R>>",
        objects={5: stream(differences(b"<a><script/></a>"), "/DecodeParms<</Predictor 12/Columns 4>>")},
    ),
    "XFA behind more than is searched": document(
        "/AcroForm<</XFA 5 0 R>>", objects={5: stream(b"<a>" + bytes(66 << 20) + b"<script/></a>")}
    ),
    "XFA in hexadecimal": document(
        "/AcroForm<</XFA 5 0 R>>",
        objects={5: stream(b"<script/>".hex().encode() + b">", "/Filter/ASCIIHexDecode", packed=False)},
    ),
}  # fmt: skip

OTHER_ACTIONS = {
    "launch": ("SECURITY_LAUNCH_ACTION", document("/OpenAction<</S/Launch/F(calc.exe)>>")),
    "launch on Windows only": (
        "SECURITY_LAUNCH_ACTION",
        document(page="/Annots[<</Subtype/Link/A<</S/Launch/Win<</F(cmd)/P(/c x)>>>>>>]"),
    ),
    "launch by reference": (
        "SECURITY_LAUNCH_ACTION",
        document("/OpenAction 5 0 R", objects={5: "<</S 6 0 R/Mac(x)>>", 6: "/Launch"}),
    ),
    "launch disguised as structure": ("SECURITY_LAUNCH_ACTION", document("/OpenAction<</S/Launch/F(a)/P 2 0 R>>")),
    "submit": ("SECURITY_SUBMIT_ACTION", document("/OpenAction<</S/SubmitForm/F(http://x.invalid)>>")),
    "import": ("SECURITY_REMOTE_ACTION", document("/OpenAction<</S/ImportData/F(a.fdf)>>")),
    "go to another file": ("SECURITY_REMOTE_ACTION", document("/OpenAction<</S/GoToR/F(a.pdf)/D[0/Fit]>>")),
    "go to an embedded file": ("SECURITY_REMOTE_ACTION", document("/OpenAction<</S/GoToE/T<</R/C>>/D[0/Fit]>>")),
    "go to a thread of another file": (
        "SECURITY_REMOTE_ACTION",
        document(page="/Annots[<</Subtype/Link/A<</S/Thread/F(a.pdf)/D 0>>>>]"),
    ),
    "link to a share": (
        "SECURITY_REMOTE_ACTION",
        document(page="/Annots[<</Subtype/Link/A<</S/URI/URI(\\\\\\\\host\\\\x)>>>>]"),
    ),
    "data of a stream elsewhere": (
        "SECURITY_REMOTE_ACTION",
        document(objects={5: stream(b"", "/F(http://x.invalid/a)/FFilter/FlateDecode")}),
    ),
    "address opened by itself": ("SECURITY_URI_ACTION", document("/OpenAction<</S/URI/URI(https://x.invalid)>>")),
    "address opened by itself after another action": (
        "SECURITY_URI_ACTION",
        document("/OpenAction<</S/GoTo/D[3 0 R/Fit]/Next[5 0 R]>>", objects={5: "<</S/URI/URI(https://x.invalid)>>"}),
    ),
    "address opened with the page": (
        "SECURITY_URI_ACTION",
        document(page="/AA<</O 5 0 R>>", objects={5: "<</S/URI/URI(https://x.invalid)>>"}),
    ),
    "link to a script that looks like a port": (
        SCRIPT,
        document(page="/Annots[<</Subtype/Link/A<</S/URI/URI(javascript:1/alert\\(1\\))>>>>]"),
    ),
    "link to a local file": (
        "SECURITY_URI_ACTION",
        document(page="/Annots[<</Subtype/Link/A<</S/URI/URI(file:///etc/passwd)>>>>]"),
    ),
    "base of all addresses": ("SECURITY_URI_ACTION", document("/URI<</Base(file:///C:/)>>")),
    "embedded file": (
        "SECURITY_EMBEDDED_FILE",
        document(
            "/Names<</EmbeddedFiles<</Names[(a)<</F(a.exe)/EF<</F 5 0 R>>>>]>>>>",
            objects={5: stream(b"MZ", "/Type/EmbeddedFile")},
        ),
    ),
    "associated file": (
        "SECURITY_EMBEDDED_FILE",
        document(page="/AF[<</Type/Filespec/F(a)/EF<</F 5 0 R>>>>]", objects={5: stream(b"MZ")}),
    ),
    "attached to an annotation": (
        "SECURITY_EMBEDDED_FILE",
        document(page="/Annots[<</Subtype/FileAttachment/FS<</F(a)/EF<</F 5 0 R>>>>>>]", objects={5: stream(b"MZ")}),
    ),
}

HONEST = {
    "a word in the text": document(content=b"BT /F 20 Tf 50 700 Td (/JavaScript /JS /Launch) Tj ET"),
    "a word in the title": document(objects={5: "<</Title(/S/JavaScript/JS)>>"}),
    "a font of that name": document(resources="<</Font<</JavaScript<</Type/Font/Subtype/Type1/BaseFont/Arial>>>>>>"),
    "a font called like a file": document(
        resources="<</Font<</EF<</Type/Font/Subtype/Type1/BaseFont/Arial/ToUnicode 5 0 R>>>>>>",
        objects={5: stream(b"")},
    ),
    "a picture of that name": document(
        resources="<</XObject<</JS 5 0 R/Launch 5 0 R>>>>", objects={5: stream(b"\x00", PICTURE)}
    ),
    "a glyph of that name": document(
        resources="<</Font<</F<</Type/Font/Subtype/Type3/CharProcs<</JS 5 0 R>>>>>>>>", objects={5: stream(b"0 0 d0")}
    ),
    "a paragraph style of that name": document(
        "/StructTreeRoot<</K 5 0 R>>", objects={5: "<</Type/StructElem/S/JavaScript/P 1 0 R/K 0/T(a)>>"}
    ),
    "an empty tree of scripts": document("/Names<</JavaScript<</Names[]>>/EmbeddedFiles<</Names[]>>>>"),
    "ordinary links": document(
        page="/Annots["
        + "".join(
            f"<</Subtype/Link/A<</S/URI/URI({address})>>>>"
            for address in (
                "https://example.com", "HTTP://example.com", "mailto:a@example.com", "tel:+49123", "www.example.com",
                "example.com:8080/a", "localhost:8000/", "catalogue.html", "", "weixin://dl/chat?a", "dingtalk://a",
                "tencent://message/?uin=1", "E-mail:a@example.com", "Website: www.example.com",
            )
        )
        + "]"
    ),
    "a link on a button that is clicked": document(
        page="/Annots[<</Subtype/Widget/AA<</U<</S/URI/URI(https://example.com)>>>>>>]"
    ),
    "going to a thread of this file": document(page="/Annots[<</Subtype/Link/A<</S/Thread/D 0>>>>]"),
    "going to a page": document("/OpenAction[3 0 R/Fit]"),
    "a form without scripts": document(
        "/AcroForm<</Fields[5 0 R]>>", objects={5: "<</FT/Tx/T(a)/V(b)/Subtype/Widget/Rect[0 0 9 9]>>"}
    ),
    "an XFA form without scripts": document("/AcroForm<</XFA 5 0 R>>", objects={5: stream(b"<a><description/></a>")}),
    "what old readers pass over": hybrid("/StructTreeRoot 7 0 R", "<</Type/StructTreeRoot>>"),
    "one resource dictionary for a form and its page": document(
        resources=" 5 0 R",
        content=b"/A Do",
        objects={
            5: "<</XObject<</A 6 0 R>>>>",
            6: stream(b"0 0 9 9 re f", "/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources 5 0 R"),
        },
    ),
}  # fmt: skip
