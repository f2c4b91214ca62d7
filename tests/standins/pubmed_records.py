"""A PubMed record as efetch and esummary show it. A few are books, which have another shape."""

from html import escape

from tests.standins.library import Entry


def is_book(entry: Entry) -> bool:
    return entry.number % 97 == 96


def article(entry: Entry, pmid: str, words: str) -> str:
    revised = (
        f"<DateRevised><Year>{entry.updated:%Y}</Year><Month>{entry.updated:%m}</Month>"
        f"<Day>{entry.updated:%d}</Day></DateRevised>"
    )
    if is_book(entry):
        return (
            f'<PubmedBookArticle><BookDocument><PMID Version="1">{pmid}</PMID>'
            f"<ArticleTitle>Stand-in chapter {entry.number}, revision {entry.version}</ArticleTitle>{revised}"
            "</BookDocument></PubmedBookArticle>\n"
        )
    kind = "Retracted Publication" if entry.is_deleted else "Journal Article"
    return (
        f'<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM"><PMID Version="1">{pmid}</PMID>{revised}'
        '<Article PubModel="Print-Electronic"><Journal><ISSN IssnType="Electronic">8765-4321</ISSN>'
        '<JournalIssue CitedMedium="Internet"><Volume>12</Volume><Issue>4</Issue>'
        f"<PubDate><Year>{entry.created:%Y}</Year></PubDate></JournalIssue>"
        "<Title>Journal of Laboratory Medicine</Title><ISOAbbreviation>J Lab Med</ISOAbbreviation></Journal>"
        f"<ArticleTitle>Stand-in record {entry.number} about airway <i>remodelling</i>, revision {entry.version}."
        f'</ArticleTitle><ELocationID EIdType="doi" ValidYN="Y">10.5555/lab.{pmid}</ELocationID>'
        f'<Abstract><AbstractText Label="RESULTS" NlmCategory="RESULTS">{escape(words)}</AbstractText></Abstract>'
        '<AuthorList CompleteYN="Y"><Author ValidYN="Y"><LastName>Rivera</LastName><ForeName>Ana B</ForeName>'
        "<Initials>AB</Initials></Author></AuthorList><Language>eng</Language><PublicationTypeList>"
        f'<PublicationType UI="D016428">{kind}</PublicationType></PublicationTypeList></Article>'
        f'<MeshHeadingList><MeshHeading><DescriptorName UI="D000000">{entry.subject}</DescriptorName></MeshHeading>'
        "</MeshHeadingList></MedlineCitation><PubmedData><History>"
        f'<PubMedPubDate PubStatus="entrez"><Year>{entry.created:%Y}</Year><Month>{entry.created.month}</Month>'
        f"<Day>{entry.created.day}</Day></PubMedPubDate></History><PublicationStatus>ppublish</PublicationStatus>"
        f'<ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId></ArticleIdList></PubmedData></PubmedArticle>\n'
    )


def summary(entry: Entry, pmid: str) -> dict:
    return {
        "uid": pmid,
        "pubdate": f"{entry.created:%Y %b} {entry.created.day}",
        "source": "J Lab Med",
        "authors": [{"name": "Rivera AB", "authtype": "Author", "clusterid": ""}],
        "title": f"Stand-in record {entry.number}, revision {entry.version}.",
        "lang": ["eng"],
        "pubtype": ["Journal Article"],
        "articleids": [{"idtype": "pubmed", "idtypen": 1, "value": pmid}],
        "history": [{"pubstatus": "entrez", "date": f"{entry.created:%Y/%m/%d %H:%M}"}],
        "fulljournalname": "Journal of Laboratory Medicine",
    }
