"""What single words are: the closed lists of English, Spanish and Portuguese that evidence is read with.

Lists are short on purpose: a word that is missing here costs a question to a person, a wrong one a wrong merge.
"""

import re
import unicodedata
from functools import lru_cache

_ACCENTS = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def unaccented(word: str) -> str:
    """The word in lower case, its Latin letters without accents. In other scripts a mark makes another letter."""
    if word.isascii():
        return word.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", word).casefold()))


# Words that carry no content of their own: articles, prepositions, pronouns, auxiliaries.
FUNCTION_WORDS = _words("""
a an the this that these those there here of in on at to for from by with as into onto upon about over under through
and or but so if than then that which who whom whose what when where while because it its he she they them his her
their we us our you your i me my mine is are was were be been being am do does did has have had having will would shall
should can could may might must s t d ll re ve m also just very too
el la los las lo un una unos unas de del al a en con por para y o u e que se su sus le les este esta estos estas ese
esa esos esas aquel aquella es son era eran fue fueron ser sido siendo esta estan estaba estaban estar ha han habia
como mas muy tambien ya hay
o os as um uma uns umas do da dos das no na nos nas ao aos pelo pela pelos pelas em com para e ou que seu sua seus suas
este esta isto esse essa isso e sao era eram foi foram ser sido sendo ha como mais muito tambem ja
le la les un une des du de et ou que qui dans en sur par pour avec est sont ete a au aux ce cette ces il elle ils son sa
ses
""")

# Of these, articles, and the forms of `to be` that a headline leaves out: they come and go without a change of meaning.
# Not `as`, `lo` or `no`, which say more in another of the languages.
ARTICLES = _words("a an the el la los las un una unos unas o os um uma uns umas")
BEING = _words("is are esta estan e sao")

# Words that turn a statement round. Two texts that differ in how many they have do not say the same.
NEGATIONS = _words("""
not non no never none nobody nothing neither nor nowhere without cannot cant dont doesnt didnt isnt arent wasnt werent
wont wouldnt shouldnt couldnt mustnt hasnt havent hadnt aint hardly barely unable refuse refuses refused fail fails
failed except unless
no ni nunca jamas nadie nada ningun ninguno ninguna sin tampoco salvo excepto
nao nem nunca jamais ninguem nada nenhum nenhuma sem tampouco exceto
ne pas jamais aucun aucune sans rien personne
""") - _words("personne nada")

# Each line: words of one kind, of which no two are the same thing; `=` joins the names of one thing.
_KINDS = """
red=rojo=roja=vermelho=vermelha blue=azul green=verde yellow=amarillo=amarilla=amarelo=amarela
... black=negro=negra=preto=preta
... white=blanco=blanca=branco=branca brown=marron=marrom=castanho orange=naranja=laranja
... purple=violet=morado=morada=roxo=roxa
... pink=rosa grey=gray=gris=cinza=cinzento silver=plateado=prateado gold=golden=dorado=dourado beige turquoise
monday=lunes tuesday=martes wednesday=miercoles thursday=jueves friday=viernes saturday=sabado sunday=domingo
segunda terca quarta quinta sexta sabado domingo
january=jan=enero=janeiro february=feb=febrero=fevereiro march=marzo=marco april=apr=abril may=mayo=maio
... june=jun=junio=junho july=jul=julio=julho august=aug=agosto september=sep=sept=septiembre=setembro
... october=oct=octubre=outubro november=nov=noviembre=novembro december=dec=diciembre=dezembro
spring=primavera summer=verano=verao autumn=fall=otono=outono winter=invierno=inverno
north=northern=norte south=southern=sur=sul east=eastern=este=leste west=western=oeste
front=delantero=delantera=dianteiro=dianteira=frontal rear=back=trasero=trasera=traseiro=traseira
left=izquierdo=izquierda=esquerdo=esquerda right=derecho=derecha=direito=direita
morning=manana=manha afternoon=evening=tarde night=noche=noite
first=primero=primera=primer=primeiro=primeira=1st second=segundo=segunda=2nd
... third=tercero=tercera=tercer=terceiro=terceira=3rd
... fourth=cuarto=cuarta=quarto=4th fifth=quinto=quinta=5th sixth=sexto=sexta=6th seventh=septimo=setimo=7th
... eighth=octavo=oitavo=8th ninth=noveno=nono=9th tenth=decimo=10th last=ultimo=ultima
man=men=hombre=hombres=homem=homens woman=women=mujer=mujeres=mulher=mulheres boy=boys=nino=ninos=menino=meninos
... girl=girls=nina=ninas=menina=meninas baby=bebe
father=dad=padre=pai mother=mom=mum=madre=mae brother=hermano=irmao sister=hermana=irma son=hijo=filho
... daughter=hija=filha
husband=marido=esposo wife=esposa grandfather=abuelo=avo grandmother=abuela uncle=tio aunt=tia
king=rey=rei queen=reina=rainha
dog=dogs=perro=perros=cachorro=cao=caes cat=cats=gato=gatos horse=horses=caballo=caballos=cavalo=cavalos
... cow=cows=vaca=vacas
... sheep=oveja=ovelha bird=birds=pajaro=ave=passaro fish=pez=peixe pig=pigs=cerdo=porco monkey=monkeys=mono=macaco
... elephant=elephants=elefante lion=lions=leon=leao tiger=tigers=tigre rabbit=rabbits=conejo=coelho
... mouse=mice=raton=rato
... bear=bears=oso=urso goat=goats=cabra duck=ducks=pato chicken=chickens=pollo=frango wolf=wolves=lobo
water=agua beer=cerveza=cerveja wine=vino=vinho milk=leche=leite coffee=cafe tea=te=cha juice=zumo=jugo=suco
... whisky=whiskey
... vodka rum=ron soda=refresco=refrigerante champagne lemonade=limonada
guitar=guitars=guitarra piano=pianos violin=violins drum=drums=tambor flute=flutes=flauta trumpet=trumpets saxophone
... harp=arpa
... banjo cello accordion=acordeon clarinet trombone tuba ukulele keyboard
football=futbol=futebol soccer basketball=baloncesto=basquete tennis=tenis baseball=beisbol hockey rugby golf cricket
... volleyball=voleibol
... badminton swimming=natacion=natacao boxing=boxeo=boxe
car=cars=coche=carro truck=trucks=camion=caminhao bus=buses=autobus=onibus train=trains=tren=trem
... bicycle=bicycles=bike=bikes=bicicleta
... motorcycle=motorcycles=motorbike=motocicleta plane=planes=airplane=avion=aviao boat=boats=barco ship=ships
... helicopter=helicoptero
... tractor scooter van=furgoneta tram=tranvia
wood=wooden=madera=madeira steel=acero=aco iron=hierro=ferro plastic=plastico glass=vidrio=vidro leather=cuero=couro
... stone=piedra=pedra
... aluminium=aluminum=aluminio copper=cobre paper=papel cotton=algodon=algodao wool=lana rubber=caucho=borracha
... ceramic=ceramica
... concrete=hormigon=concreto brick=ladrillo titanium=titanio brass=laton
petrol=gasoline=gasolina diesel=gasoleo electric=electrico=electrica=eletrico=eletrica hybrid=hibrido=hibrida
... hydrogen=hidrogeno=hidrogenio
... gas lpg cng
automatic=automatico=automatica manual
hourly daily=diario=diaria=diariamente weekly=semanal=semanalmente monthly=mensual=mensal=mensalmente=mensualmente
... quarterly=trimestral yearly=annual=annually=anual=anualmente
single=individual double=dual=twin=doble=duplo=dupla triple=triplo=tripla quadruple
apple=apples=manzana=maca banana=bananas orange=oranges=naranja=laranja potato=potatoes=patata=papa=batata
... tomato=tomatoes=tomate
... onion=onions=cebolla=cebola carrot=carrots=zanahoria=cenoura garlic=ajo=alho cucumber=pepino mushroom=mushrooms
... pepper lemon=limon=limao
... egg=eggs=huevo=ovo bread=pan=pao cheese=queso=queijo rice=arroz meat=carne beef shrimp pasta cake pizza
english=ingles=inglesa french=frances=francesa spanish=espanol=espanola=espanhol=espanhola
... german=aleman=alemana=alemao=alema
... portuguese=portugues=portuguesa italian=italiano=italiana chinese=chino=china=chines=chinesa
... japanese=japones=japonesa russian=ruso=rusa=russo=russa
... arabic=arabe dutch=holandes american=americano=americana british=britanico=britanica indian=indio=indiano
... mexican=mexicano canadian=canadiense
... brazilian=brasileno=brasileiro korean=coreano greek=griego=grego turkish=turco swedish=sueco polish=polaco=polones
... irish=irlandes australian=australiano
france=francia=franca germany=alemania=alemanha spain=espana=espanha portugal italy=italia japan=japon=japao
... russia=rusia mexico
... canada brazil=brasil greece=grecia turkey=turquia sweden=suecia poland=polonia ireland=irlanda=ireland australia
... india england=inglaterra
... scotland=escocia switzerland=suiza=suica austria belgium=belgica netherlands=holland norway=noruega
... denmark=dinamarca finland=finlandia
... argentina chile peru colombia egypt=egipto=egito israel iran iraq=irak=iraque syria=siria afghanistan=afganistan
... pakistan vietnam
... africa europe=europa asia america usa=us=eeuu=eua uk=britain
kitchen=cocina=cozinha bathroom=bano=banheiro bedroom=dormitorio=quarto garage=garaje=garagem garden=jardin=jardim
... roof=techo=telhado
beach=playa=praia mountain=montana=montanha river=rio lake=lago desert=desierto=deserto forest=bosque=floresta
... ocean=oceano street=calle=rua park=parque
summer=verano winter=invierno
daily=diario=diaria=diariamente weekly=semanal=semanalmente monthly=mensual=mensal yearly=annual=annually=anual hourly
... quarterly=trimestral
yes=si=sim no=nao
metre=metres=meter=meters=metro=metros foot=feet=pie=pies=pe=pes inch=inches=pulgada=polegada
... mile=miles=milla=millas=milha=milhas
... kilometre=kilometres=kilometer=kilometers=kilometro=kilometros=quilometro=quilometros yard=yards
... centimetre=centimeter=centimetro
... millimetre=millimeter=milimetro
second=seconds=segundo=segundos minute=minutes=minuto=minutos hour=hours=hora=horas day=days=dia=dias
... week=weeks=semana=semanas
... month=months=mes=meses year=years=ano=anos decade=decada century=siglo=seculo
kilogram=kilograms=kilo=kilos=quilo=quilos gram=grams=gramo=gramos=grama=gramas pound=pounds=libra=libras
... ounce=ounces=onza=onca
... tonne=tonnes=ton=tons=tonelada=toneladas
dollar=dollars=dolar=dolares euro=euros pound=pounds=libra yen peso=pesos real=reais
"""

# Each line: two lists of words that are opposites of each other.
_OPPOSITES = """
hot warm caliente quente | cold cool frio fria
big large huge grande grandes | small little tiny pequeno pequena pequenos pequenas
tall high alto alta altos altas | short low bajo baja bajos bajas baixo baixa baixos baixas
long largo larga longo longa | short corto corta curto curta
fast quick quickly rapid rapido rapida rapidamente | slow slowly lento lenta lentamente devagar
open opens opened opening abierto abierta abrir abre aberto aberta | close closes closed closing shut cerrado cerrada
... cerrar cierra fechado fechada fechar fecha
on encendido encendida ligado ligada | off apagado apagada desligado desligada
up upstairs upward arriba acima | down downstairs downward abajo abaixo
inside indoors dentro interior | outside outdoors fuera fora exterior
before antes | after despues depois
above encima sobre | below under beneath debajo bajo embaixo sob
more mas mais | less fewer menos
most | least
maximum max maximo maxima | minimum min minimo minima
increase increases increased increasing rise rises rose risen grow grows grew aumenta aumentar aumento aumentou sube
... subir subio | decrease decreases decreased decreasing fall falls fell fallen drop drops dropped decline declined
... disminuye disminuir reduce reduced reduces reducir diminui diminuir baja bajar cayo caiu
enable enables enabled activate activated activates activar activa habilitar habilita ativar ativa | disable disables
... disabled deactivate deactivated deactivates desactivar desactiva deshabilitar desativar desativa
allow allows allowed permit permits permitted permitir permite permitido permitida | forbid forbids forbidden prohibit
... prohibits prohibited deny denied ban banned prohibir prohibe prohibido prohibida proibir proibe proibido proibida
accept accepts accepted aceptar acepta aceptado aceitar aceita aceito | reject rejects rejected rechazar rechaza
... rechazado rejeitar rejeita rejeitado
win wins won ganar gana gano ganhar ganha ganhou | lose loses lost perder pierde perdio perde perdeu
buy buys bought comprar compra compro comprou | sell sells sold vender vende vendio vendeu
start starts started begin begins began empezar empieza comenzar comienza comecar comeca iniciar inicia | stop stops
... stopped end ends ended finish finishes finished terminar termina acabar acaba parar para detener detiene
import imports imported importar | export exports exported exportar
true verdadero verdadera verdadeiro verdadeira | false falso falsa
full lleno llena cheio cheia | empty vacio vacia vazio vazia
good bueno buena buen bom boa | bad malo mala mal mau ma
better mejor melhor | worse peor pior
best | worst
new nuevo nueva novo nova | old viejo vieja antiguo antigua velho velha antigo antiga
young joven jovem | old elderly viejo vieja anciano velho velha idoso
early temprano cedo | late tarde
easy facil | difficult hard dificil
strong fuerte forte | weak debil fraco fraca
heavy pesado pesada | light ligero ligera leve
dry seco seca | wet mojado mojada molhado molhada humedo
clean limpio limpia limpo limpa | dirty sucio sucia sujo suja
rich rico rica | poor pobre
alive vivo viva | dead muerto muerta morto morta
happy feliz contento | sad unhappy triste
loud loudly | quiet quietly silent silently
safe seguro segura | dangerous unsafe peligroso peligrosa perigoso perigosa
same mismo misma mesmo mesma | different diferente distinto distinta
always siempre sempre | never nunca jamas jamais
all every everybody everyone todo toda todos todas | none nobody nothing no ninguno ninguna nenhum nenhuma
many muchos muchas muitos muitas | few pocos pocas poucos poucas
with con com | without sin sem
include includes included including incluye incluido incluida incluir inclui | exclude excludes excluded excluding
... excluye excluido excluida excluir exclui
required mandatory compulsory obligatorio obligatoria obrigatorio obrigatoria | optional opcional voluntary voluntario
internal interno interna | external externo externa
public publico publica | private privado privada
positive positivo positiva | negative negativo negativa
legal | illegal ilegal
possible posible possivel | impossible imposible impossivel
success succeed succeeds succeeded exito sucesso | failure fail fails failed fracaso fracasso
enter enters entered entrar entra entrou | leave leaves left exit exits salir sale sair sai
arrive arrives arrived llegar llega llego chegar chega chegou | depart departs departed salir partir
sit sits sitting sentado sentada | stand stands standing
asleep sleep sleeping sleeps | awake
remove removes removed quitar retirar remover remove | add adds added install installs installed agregar anadir
... adicionar instalar
push pushes pushed empujar empurrar | pull pulls pulled tirar puxar
charge charges charging cargar carga carregar carrega | discharge discharges discharging descargar descarga descarregar
lock locks locked bloquear bloqueado bloqueada | unlock unlocks unlocked desbloquear desbloqueado desbloqueada
connect connects connected conectar conectado conectada | disconnect disconnects disconnected desconectar desconectado
... desconectada
upper superior | lower inferior
wide ancho ancha largo larga | narrow estrecho estrecha estreito estreita
deep profundo profunda fundo | shallow superficial
love loves loved amar ama | hate hates hated odiar odia
agree agrees agreed acuerdo concorda | disagree disagrees disagreed discorda
guilty culpable culpado | innocent inocente
victory victoria vitoria | defeat derrota
war guerra | peace paz
male masculino | female femenino feminino
behind detras atras | front delante frente
near close cerca perto | far lejos longe distant
bright brillante brilhante claro clara | dark dull oscuro oscura escuro escura
thin delgado delgada fino fina | thick grueso gruesa grosso grossa
short corto curto | lengthy
natural | artificial
hungry | eating full
smile smiles smiling sonrie | frown frowns frowning cry cries crying
raise raises raising | lower lowers lowering
ground suelo chao | air aire ar
tight tighten tightens tightened apretar apertar | loose loosen loosens loosened aflojar afrouxar
forward forwards adelante avante | backward backwards reverse atras tras
clockwise horario | counterclockwise anticlockwise antihorario
horizontal horizontally horizontalmente | vertical vertically verticalmente
ascending ascendente | descending descendente
input inputs entrada entradas | output outputs salida salidas saida saidas
upload uploads uploaded uploading | download downloads downloaded downloading
upstream montante | downstream jusante
inner interior interno | outer exterior externo
primary primario primaria | secondary secundario secundaria
daytime diurno diurna | nighttime nocturno nocturna noturno noturna
earlier | later
heating calefaccion calentamiento aquecimento | cooling refrigeracion refrigeracao enfriamiento resfriamento
suction succion succao | discharge descarga
anode anodo | cathode catodo
analog analogue analogico analogica | digital
wired cableado | wireless inalambrico inalambrica
encrypt encrypts encrypted cifrar cifrado criptografar criptografado | decrypt decrypts decrypted descifrar descifrado
... descriptografar
attach attaches attached acoplar acoplado | detach detaches detached desacoplar desacoplado
approve approves approved aprobar aprobado aprovar aprovado | reject rejects rejected rechazar rechazado rejeitar
... rejeitado
buyer buyers comprador compradora | seller sellers vendedor vendedora
employer empleador empregador | employee employees empleado empregado
sender remitente remetente | recipient receiver destinatario
credit credito | debit debito
profit profits ganancia ganancias lucro | loss losses perdida perdidas prejuizo
arrival arrivals llegada chegada | departure departures salida partida
"""

# Words for a whole kind of things: beside one thing of that kind they say less, not the same. `=` as above.
_GENERAL = """
animal=animals=animales=animais kid=kids=child=children=nino=ninos=crianca=criancas
person=someone=somebody=persona=pessoa=alguien=alguem
people=personas=pessoas=gente vehicle=vehicles=vehiculo=vehiculos=veiculo=veiculos weapon=weapons=arma=armas
food=comida=alimento drink=drinks=bebida=bebidas instrument=instruments=instrumento=instrumentos
object=thing=objeto=cosa=coisa
building=edificio=predio sport=deporte=esporte game=juego=jogo machine=maquina tool=herramienta=ferramenta place=lugar
fruit=fruta vegetable=vegetables=verdura=vegetal plant=planta device=dispositivo boat=barco rock=roca=pedra
some=algunos=alguns few=pocos=poucos several=varios many=muchos=muitos lot=lots
"""

# Prefixes that turn the rest of a word round (`legal`, `illegal`).
_REVERSING = ("un", "in", "im", "il", "ir", "dis", "non", "des", "de", "mis", "anti", "ab")

# Small numbers in words. `one` is left out: it is a pronoun or an article more often than a number.
NUMBER_WORDS = {
    word: value
    for value, words in {
        0: "zero cero",
        2: "two dos dois duas",
        3: "three tres",
        4: "four cuatro quatro",
        5: "five cinco",
        6: "six seis",
        7: "seven siete sete",
        8: "eight ocho oito",
        9: "nine nueve nove",
        10: "ten diez dez",
        11: "eleven once onze",
        12: "twelve doce doze dozen docena duzia",
        13: "thirteen trece treze",
        14: "fourteen catorce quatorze",
        15: "fifteen quince quinze",
        16: "sixteen dieciseis dezesseis",
        17: "seventeen diecisiete dezessete",
        18: "eighteen dieciocho dezoito",
        19: "nineteen diecinueve dezenove",
        20: "twenty veinte vinte",
        30: "thirty treinta trinta",
        40: "forty cuarenta quarenta",
        50: "fifty cincuenta cinquenta",
        60: "sixty sesenta sessenta",
        70: "seventy setenta",
        80: "eighty ochenta oitenta",
        90: "ninety noventa",
        100: "hundred cien ciento cem cento",
        1000: "thousand mil",
        1_000_000: "million millon millones milhao milhoes",
        1_000_000_000: "billion bilhao bilhoes",
    }.items()
    for word in words.split()
}

# Symbols and names of units: the quantity they measure and how many of its base unit one is. Case counts: mW, MW.
UNITS: dict[str, tuple[str, float]] = {
    name: (quantity, factor)
    for quantity, units in {
        "length": "nm:1e-9 µm:1e-6 mm:1e-3 cm:1e-2 dm:0.1 m:1 km:1000 in:0.0254 inch:0.0254 inches:0.0254 ft:0.3048 "
        "mi:1609.344 mile:1609.344 miles:1609.344 millas:1609.344 milhas:1609.344 metres:1 meters:1 metros:1 "
        "pies:0.3048 feet:0.3048",
        "mass": "mg:1e-6 g:1e-3 kg:1 t:1000 lb:0.45359237 lbs:0.45359237 oz:0.028349523125",
        "time": "ns:1e-9 µs:1e-6 ms:1e-3 s:1 sec:1 seconds:1 segundos:1 min:60 mins:60 minutes:60 minutos:60 h:3600 "
        "hr:3600 hrs:3600 hour:3600 hours:3600 hora:3600 horas:3600 day:86400 days:86400 dia:86400 dias:86400 "
        "week:604800 weeks:604800 semana:604800 semanas:604800",
        "month": "month:1 months:1 mes:1 meses:1 year:12 years:12 año:12 años:12 ano:12 anos:12",
        "power": "mW:1e-3 W:1 kW:1000 MW:1e6 GW:1e9 hp:745.699872 cv:735.49875 CV:735.49875",
        "energy": "J:1 kJ:1000 MJ:1e6 Wh:3600 kWh:3.6e6 MWh:3.6e9",
        "voltage": "mV:1e-3 V:1 kV:1000",
        "current": "mA:1e-3 A:1 kA:1000",
        "charge": "mAh:3.6 Ah:3600",
        "frequency": "Hz:1 kHz:1000 MHz:1e6 GHz:1e9",
        "pressure": "Pa:1 kPa:1000 MPa:1e6 bar:1e5 psi:6894.757",
        "volume": "ml:1e-3 mL:1e-3 cl:1e-2 l:1 L:1 litre:1 litres:1 liter:1 liters:1 litros:1 gal:3.785411784 "
        "cm³:1e-3 cm3:1e-3 m³:1000 m3:1000",
        "data": "B:1 kB:1e3 KB:1e3 MB:1e6 GB:1e9 TB:1e12",
        "speed": "km/h:1 kmh:1 kph:1 mph:1.609344",
        "torque": "Nm:1",
        "share": "%:1 percent:1 pct:1 porcentaje:1",
        "temperature": "°C:1 ºC:1",
        "temperature F": "°F:1 ºF:1",
        "money": "$:1 US$:1 usd:1 USD:1 dollars:1",
        "euros": "€:1 eur:1 EUR:1 euros:1",
        "pounds": "£:1 gbp:1 GBP:1",
        "reais": "R$:1 brl:1 BRL:1 reais:1",
        "area": "mm²:1e-6 mm2:1e-6 cm²:1e-4 cm2:1e-4 m²:1 m2:1 km²:1e6 km2:1e6",
    }.items()
    for name, factor in ((unit.rsplit(":", 1)[0], float(unit.rsplit(":", 1)[1])) for unit in units.split())
}


@lru_cache(maxsize=2**17)
def stem(word: str) -> str:
    """What inflections of a word share; for words of four letters and more."""
    bare = unaccented(word)
    if len(bare) < 4 or not bare.isascii() or not bare.isalpha():
        return bare
    for ending in ("ies", "es", "s"):
        if bare.endswith(ending) and not bare.endswith("ss") and len(bare) - len(ending) >= 3:
            bare = bare[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    for ending in ("ing", "ed"):
        if bare.endswith(ending) and len(bare) - len(ending) >= 3:
            bare = bare[: -len(ending)]
            # cutting, cut; but not falling, fal.
            if bare[-1] == bare[-2] and bare[-1] not in "lsz":
                bare = bare[:-1]
            break
    if bare.endswith("y") and len(bare) > 3:
        bare = bare[:-1] + "i"
    return bare[:-1] if bare[-1] in "eoai" and len(bare) > 3 else bare


def _lines(text: str) -> list[str]:
    """The lines of a list, those that go on after `...` whole."""
    return text.strip().replace("\n...", " ").splitlines()


def _kinds() -> dict[str, list[tuple[int, int]]]:
    """For each word the kinds it is of, and which thing of that kind it is."""
    found: dict[str, list[tuple[int, int]]] = {}
    for kind, line in enumerate(_lines(_KINDS)):
        for thing, names in enumerate(line.split()):
            for name in names.split("="):
                found.setdefault(name, []).append((kind, thing))
    return found


def _opposites() -> dict[str, list[tuple[int, int]]]:
    """For each word the oppositions it is in, and on which side."""
    found: dict[str, list[tuple[int, int]]] = {}
    for number, line in enumerate(_lines(_OPPOSITES)):
        for side, words in enumerate(line.split("|")):
            for word in words.split():
                found.setdefault(word, []).append((number, side))
    return found


def _by_stem(places: dict[str, list[tuple[int, int]]]) -> dict[str, list[tuple[int, int]]]:
    """The same for what inflections share, so that a form that is not listed is known too."""
    found: dict[str, list[tuple[int, int]]] = {}
    for word, there in places.items():
        kept = found.setdefault(stem(word), [])
        kept.extend(place for place in there if place not in kept)
    return found


def _generals() -> dict[str, int]:
    return {stem(name): number for number, names in enumerate(_GENERAL.split()) for name in names.split("=")}


KINDS_OF = _by_stem(_kinds())
OPPOSITES_OF = _by_stem(_opposites())
GENERAL = _generals()
_LISTED = KINDS_OF.keys() | OPPOSITES_OF.keys()
_MONTH_KIND = _kinds()["january"][0][0]
MONTHS = {
    name: thing + 1
    for name, places in _kinds().items()
    for kind, thing in places
    if kind == _MONTH_KIND and name != "may"
}


def are_opposed(one: str, other: str) -> bool:
    """Whether two words, in lower case and without accents, are of opposite or incompatible meaning."""
    bare, bare_other, one, other = one, other, stem(one), stem(other)
    if one == other:
        return False
    if one not in _LISTED or other not in _LISTED:
        return _is_reversed(bare, bare_other)
    kinds, others = KINDS_OF.get(one, ()), KINDS_OF.get(other, ())
    if any((kind, thing) in others for kind, thing in kinds):
        return False
    if any(kind == kind2 for kind, _ in kinds for kind2, _ in others):
        return True
    opposites, facing = OPPOSITES_OF.get(one, ()), OPPOSITES_OF.get(other, ())
    facing_each_other = any(n == n2 and side != side2 for n, side in opposites for n2, side2 in facing)
    return facing_each_other or _is_reversed(bare, bare_other)


def _is_reversed(one: str, other: str) -> bool:
    if one[-4:] != other[-4:] or len(one) == len(other):
        return False
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return len(shorter) >= 4 and any(longer == prefix + shorter for prefix in _REVERSING)


def is_listed(word: str) -> bool:
    """Whether a list of ours has the word, in any of its forms."""
    shared = stem(unaccented(word))
    return shared in _LISTED or shared in GENERAL


def is_broader(one: str, other: str) -> bool:
    """Whether one of the two words stands for a whole kind of things, and the other is not another word for it."""
    kinds = GENERAL.get(stem(one)), GENERAL.get(stem(other))
    return kinds != (None, None) and kinds[0] != kinds[1]
