"""A define.xml as CDISC's Define-XML 2.0 and 2.1 have it."""

_NAMESPACES = {"2.0": "http://www.cdisc.org/ns/def/v2.0", "2.1": "http://www.cdisc.org/ns/def/v2.1"}


def define_xml(version: str = "2.1") -> str:
    """Return the definition of the data set PUPILS of tests/support/readstat files: labels, formats and code lists."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="define{version.replace(".", "-")}.xsl"?>
<ODM xmlns="http://www.cdisc.org/ns/odm/v1.3" xmlns:def="{_NAMESPACES[version]}" xmlns:xlink="http://www.w3.org/1999/xlink"
     ODMVersion="1.3.2" FileType="Snapshot" FileOID="define" CreationDateTime="2026-11-22T08:00:00">
  <Study OID="S1">
    <GlobalVariables>
      <StudyName>S1</StudyName><StudyDescription>d</StudyDescription><ProtocolName>P</ProtocolName>
    </GlobalVariables>
    <MetaDataVersion OID="MDV1" Name="Study S1" def:DefineVersion="{version}.0">
      <ItemGroupDef OID="IG.PUPILS" Name="PUPILS" SASDatasetName="PUPILS"
          Repeating="No" Purpose="Tabulation" def:Structure="one per pupil">
        <Description><TranslatedText xml:lang="en">Pupils of
          a class</TranslatedText></Description>
        <ItemRef ItemOID="IT.NAME" Mandatory="Yes" OrderNumber="1" KeySequence="1"/>
        <ItemRef ItemOID="IT.SEX" Mandatory="Yes" OrderNumber="2"/>
        <ItemRef ItemOID="IT.AGEGR" Mandatory="No" OrderNumber="3"/>
        <ItemRef ItemOID="IT.BORN" Mandatory="No" OrderNumber="4"/>
        <ItemRef ItemOID="IT.ROOM" Mandatory="No" OrderNumber="5"/>
        <ItemRef ItemOID="IT.GONE" Mandatory="No" OrderNumber="6"/>
      </ItemGroupDef>
      <ItemDef OID="IT.NAME" Name="NAME" SASFieldName="NAME" DataType="text" Length="20">
        <Description><TranslatedText xml:lang="en">First name</TranslatedText></Description>
      </ItemDef>
      <ItemDef OID="IT.SEX" Name="SEX" DataType="text" Length="1">
        <Description><TranslatedText xml:lang="en">Sex</TranslatedText></Description>
        <CodeListRef CodeListOID="CL.SEX"/>
      </ItemDef>
      <ItemDef OID="IT.AGEGR" Name="AGEGR" DataType="integer" Length="1" def:DisplayFormat="1.">
        <Description><TranslatedText xml:lang="en">Age group</TranslatedText></Description>
        <CodeListRef CodeListOID="CL.AGEGR1"/>
      </ItemDef>
      <ItemDef OID="IT.BORN" Name="BORN" DataType="integer" def:DisplayFormat="DATE9">
        <Description><TranslatedText xml:lang="en">Date of birth</TranslatedText></Description>
      </ItemDef>
      <ItemDef OID="IT.ROOM" Name="ROOM" DataType="text" Length="3"/>
      <ItemDef OID="IT.GONE" Name="GONE" DataType="text" Length="3"/>
      <CodeList OID="CL.SEX" Name="Sex" DataType="text" SASFormatName="$SEX">
        <CodeListItem CodedValue="F"><Decode><TranslatedText>Female</TranslatedText></Decode></CodeListItem>
        <CodeListItem CodedValue="M"><Decode><TranslatedText>Male</TranslatedText></Decode></CodeListItem>
      </CodeList>
      <CodeList OID="CL.AGEGR1" Name="Age group" DataType="integer">
        <CodeListItem CodedValue="1"><Decode><TranslatedText>Under 12</TranslatedText></Decode></CodeListItem>
        <CodeListItem CodedValue="2"><Decode><TranslatedText>12 and older</TranslatedText></Decode></CodeListItem>
      </CodeList>
      <CodeList OID="CL.UNITS" Name="Units" DataType="text"><EnumeratedItem CodedValue="cm"/></CodeList>
    </MetaDataVersion>
  </Study>
</ODM>
"""
